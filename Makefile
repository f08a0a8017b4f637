# Every task of the project has one spelling: these targets.

GO ?= go
BIN := build/bin
FUZZTIME ?= 60s
# Ten minutes unless DURATION is given; the soak's default is another.
ENDURANCE_DURATION := $(or $(DURATION),10m)
DURATION ?= 60s
FAULT_REPEATS ?= 3
FAULT_ONLY ?=
AUDIO_DURATION ?= 30s
RACE ?= 1
# The version that /api/v1/info shows: the newest release tag, or the source's own.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' --dirty 2>/dev/null | sed 's/^v//')
LDFLAGS := $(if $(VERSION),-X github.com/mxl-stack/mxl-fabrics-agent/agent.Version=$(VERSION))

.PHONY: all build deps demo test check integration bench fuzz soak lanes activation outage restart links late-address control-plane scale readercheck audio ui ui-test verbs image-test faults endurance prove clean

all: build

# Debian packages that building needs and that are missing.
deps:
	@tests/tools/deps.sh

build: deps
	@mkdir -p $(BIN)
	$(GO) build -ldflags "$(LDFLAGS)" -o $(BIN)/ ./cmd/... ./tests/nmosstandin/cmd/...

# Two agents on loopback, a writer and a registry; ends by itself.
demo: build
	$(GO) run ./tests/demo

test: deps
	@GO="$(GO)" RACE="$(RACE)" tests/tools/test.sh

# What can be said without running anything.
check:
	@GO="$(GO)" tests/tools/check.sh

# The scripts that run the real binaries against each other.
integration: build
	tests/integration/tcp_mesh.sh
	tests/integration/shutdown.sh
	tests/integration/flow_cleanup.sh
	RESTARTS=5 GO="$(GO)" tests/integration/restart.sh

bench: build
	$(GO) run ./tests/bench

# Every fuzz target for FUZZTIME each.
fuzz: deps
	@GO="$(GO)" tests/tools/fuzz.sh "$(FUZZTIME)"

# Video, audio and data through two agents for DURATION, every byte verified.
soak: build
	$(GO) run ./tests/soak -duration "$(DURATION)"

# Age and pace of 16-channel audio, one transfer at a time and pipelined, and of grains
# in slices. AUDIO_DURATION=10m for the long run.
audio: build
	$(GO) run ./tests/audio -duration "$(AUDIO_DURATION)"

# 64 audio and 4 video flows at once through two agents, every byte verified.
lanes: build
	$(GO) run ./tests/lanes -duration "$(DURATION)"

# Activation to first readable grain, with subscriptions and without.
activation: build
	$(GO) run ./tests/activation

# The registry goes away for a minute and comes back empty.
outage: build
	$(GO) run ./tests/outage

# The destination agent ends again and again under readers: RESTARTS times with
# SIGKILL, as many with SIGTERM.
restart: build
	GO="$(GO)" tests/integration/restart.sh

# Three hosts in network namespaces, each pair with a cable: cables are pulled and
# addresses taken away while flows run; root.
links: build
	$(GO) run ./tests/links

# A verbs device gets its address after the agent has started; the bench as for verbs.
# LIBFABRIC=DIR runs it with another libfabric besides the system's.
late-address: deps
	@GO="$(GO)" tests/links/lateaddress.sh

# What looking for readers costs on a host of 200 processes with 2,000 mappings.
readercheck: build
	$(GO) run ./tests/readercheck

# The admin page: agent/ui/dist from ui/. Its files are committed; nothing else
# needs node.
ui:
	cd ui && npm ci && npm run build

# The page in Chromium against two agents; screenshots are build/ui/*.png.
ui-test: build
	@tests/ui/run.sh

# Lanes, two agents, lost packets and broken handshakes over Soft-RoCE in an emulated
# machine: the bench at RDMA_VM, ../shared/rdma-vm/rdma-vm by default.
verbs: deps
	@GO="$(GO)" tests/verbs/run.sh

# The image is built and looked at, and the Compose demo runs with it; root.
image-test:
	@GO="$(GO)" tests/deploy/image.sh

# What 500 flows of 20 simulated peers cost an agent that moves none of them.
control-plane: build
	$(GO) run ./tests/controlplane

# How the control plane's cost grows with the plant: 10 to 400 simulated peers, 100
# to 4,000 flows; a plot is build/results/scale.svg. About four minutes.
scale: build
	$(GO) run ./tests/scale

# Three hosts in network namespaces and what befalls them, each fault FAULT_REPEATS
# times; FAULT_ONLY selects by a regular expression. root.
faults: build
	$(GO) run ./tests/faults -repeats "$(FAULT_REPEATS)" -only "$(FAULT_ONLY)"

# Three hosts, twelve flows, for DURATION (10m; 1h by hand): nothing lost, nothing
# grows. root.
endurance: build
	$(GO) run ./tests/endurance -duration "$(ENDURANCE_DURATION)"

# Links, faults, endurance, scale and Soft-RoCE in one go, with one summary. PROVE
# selects steps. root.
prove: build
	@FAULT_REPEATS="$(FAULT_REPEATS)" tests/tools/prove.sh

clean:
	rm -rf build
