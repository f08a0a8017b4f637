#!/usr/bin/env bash
# Builds docker/Dockerfile, looks at the image, and runs the Compose demo with it.
# Needs root on a Debian-like system. Where no Docker engine answers, one is
# started for the time of the test from Debian's packages; the base images are
# made locally with mmdebstrap (BUILD_IMAGE and RUNTIME_IMAGE name others), and
# modules come from the module cache, so that no image registry is needed.
# Grafana, of which there is no Debian package, is left out of the run.
#
# Engine data and base images stay in build/image for the next run, unless KEEP=0:
# it builds what changed since. Nothing runs and nothing is mounted when it is over.
NAME=image
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
source tests/integration/lib.sh

: "${GO:=go}" "${KEEP:=1}"
WORK=$ROOT/build/image
# A module of its own: the layers hold Go sources that are none of this tree.
mkdir -p "$WORK" && : >"$WORK/go.mod"
VERSION=0.0.0-imagetest
ENGINE_PID= COMPOSED= BEGAN=$EPOCHSECONDS
PROJECT=mxl-fabrics-agent-imagetest
export DOCKER_BUILDKIT=1
export MXL_FABRICS_AGENT_IMAGE=mxl-fabrics-agent:imagetest
export MXL_FABRICS_AGENT_DEMO_IMAGE=mxl-fabrics-agent-demo:imagetest
export PROMETHEUS_IMAGE=mxl-prometheus:imagetest

trap 'end' EXIT
end() {
	local status=$?
	set +e
	trap - EXIT
	take_down
	[[ $KEEP == 1 ]] || rm -rf "$WORK"
	rm -rf "$SHM"
	exit "$status"
}

# take_down: the demo, what it stored, and the engine where it is our own.
take_down() {
	if [[ -n $COMPOSED ]]; then
		compose logs --no-color >"$LOGS/demo.log" 2>&1
		compose down --volumes --timeout 12 >>"$LOGS/compose.log" 2>&1
		COMPOSED=
	fi
	[[ -n $ENGINE_PID ]] || return 0
	docker image prune -f >/dev/null 2>&1
	kill -TERM "$ENGINE_PID" 2>/dev/null
	within 20 gone "$ENGINE_PID" || kill -KILL "$ENGINE_PID" 2>/dev/null
	wait "$ENGINE_PID" 2>/dev/null
	ENGINE_PID=
	# A namespace that the engine keeps mounted.
	umount -l "$SHM"/engine/netns/* 2>/dev/null
	return 0
}

# not_run WHY: this machine lacks what the test needs.
not_run() {
	echo "image: not run: $1" >&2
	exit 69
}

# need PACKAGE COMMAND: the command, from the Debian package where it is missing.
need() {
	command -v "$2" >/dev/null && return
	echo "image: installing $1"
	[[ -n ${UPDATED:-} ]] || apt-get -o DPkg::Lock::Timeout=300 update >"$LOGS/apt.log" 2>&1
	UPDATED=1
	DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$1" \
		>>"$LOGS/apt.log" 2>&1 || not_run "$1 cannot be installed: $(tail -n 1 "$LOGS/apt.log")"
}

((EUID == 0)) || not_run "root is needed: for the engine and for making base images"
need docker.io dockerd
need docker-compose docker-compose
need mmdebstrap mmdebstrap
need jq jq
# Another docker command may come first in PATH and know no engine of this age.
docker() { command "${DOCKER:-/usr/bin/docker}" "$@"; }
# Compose before 2 does not know the top-level name, and takes paths in a file that
# it reads from its input as relative to where it runs.
compose() {
	(cd docker && sed '/^name:/d' docker-compose.demo.yaml |
		docker-compose --project-name "$PROJECT" --project-directory . --file - "$@")
}

# An engine: the one that answers, or one of our own. Host networks only, so
# neither bridge nor packet filter are needed; vfs where overlay2 cannot be had.
engine() {
	local driver
	docker info >/dev/null 2>&1 && return
	export DOCKER_HOST=unix://$SHM/docker.sock
	for driver in overlay2 vfs; do
		dockerd --host "$DOCKER_HOST" --data-root "$WORK/engine" --exec-root "$SHM/engine" --pidfile "$SHM/docker.pid" \
			--storage-driver "$driver" --iptables=false --ip6tables=false --bridge=none >>"$LOGS/dockerd.log" 2>&1 &
		ENGINE_PID=$!
		if within 30 docker info >"$LOGS/engine.info" 2>&1; then
			echo "image: own engine, $(docker version --format '{{.Server.Version}}'), $driver"
			return
		fi
		kill -KILL "$ENGINE_PID" 2>/dev/null
		wait "$ENGINE_PID" 2>/dev/null
	done
	ENGINE_PID=
	not_run "dockerd does not run here: $(tail -n 2 "$LOGS/dockerd.log")"
}
engine

# A Debian bookworm as its slim image is: no documents, no package lists.
if [[ -z ${RUNTIME_IMAGE:-} ]]; then
	RUNTIME_IMAGE=mxl-bookworm:imagetest
	if [[ ! -s $WORK/bookworm.tar ]]; then
		echo "image: making a base image"
		# In a mount namespace of its own, so that nobody else keeps its mounts busy.
		unshare --mount mmdebstrap --variant=minbase \
			--dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
			--dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
			--customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/*' \
			bookworm "$WORK/bookworm.part.tar" \
			"deb http://deb.debian.org/debian bookworm main" \
			"deb http://deb.debian.org/debian bookworm-updates main" \
			"deb http://deb.debian.org/debian-security bookworm-security main" \
			>"$LOGS/mmdebstrap.log" 2>&1 || not_run "mmdebstrap failed: $(tail -n 2 "$LOGS/mmdebstrap.log")"
		mv "$WORK/bookworm.part.tar" "$WORK/bookworm.tar"
	fi
	docker image inspect "$RUNTIME_IMAGE" >/dev/null 2>&1 || docker import "$WORK/bookworm.tar" "$RUNTIME_IMAGE" >/dev/null
fi

# The tree as it is now, so that all images are of one state of it.
CONTEXT=$WORK/context
rm -rf "$CONTEXT"
mkdir -p "$CONTEXT"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
	[[ ! -e $file ]] || printf '%s\0' "$file"
done | tar --null -T - -c | tar -x -C "$CONTEXT"

# build_image: the base image with this Go, the modules of go.mod as a proxy on
# disk, and what is not of this tree compiled already.
build_image() {
	echo "image: making a build image"
	docker image ls -q mxl-golang | xargs -r docker image rm -f >/dev/null
	rm -rf "$WORK/golang"
	mkdir -p "$WORK/golang"
	goroot=$(readlink -f "$("$GO" env GOROOT)")
	(cd "$CONTEXT" && GOFLAGS=-modcacherw GOMODCACHE=$WORK/modules \
		GOPROXY="file://$("$GO" env GOMODCACHE)/cache/download,$("$GO" env GOPROXY)" "$GO" mod download)
	tar -C "$(dirname "$goroot")" --transform "s,^$(basename "$goroot"),go," -cf "$WORK/golang/go.tar" "$(basename "$goroot")"
	tar -C "$WORK/modules/cache" --transform 's,^download,modules,' -cf "$WORK/golang/modules.tar" download
	cp go.mod go.sum "$WORK/golang"
	"$GO" list -deps ./cmd/... ./tests/nmosstandin/cmd/... | grep -vE "^(vendor/|$("$GO" list -m))" >"$WORK/golang/packages"
	cat >"$WORK/golang/Dockerfile" <<-LINES
		FROM $RUNTIME_IMAGE
		RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
		ADD go.tar /usr/local/
		ADD modules.tar /
		ENV PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin GOTOOLCHAIN=local GOPROXY=file:///modules
		COPY go.mod go.sum packages /warm/
		RUN cd /warm && go build -trimpath \$(cat packages) && rm -rf /warm
	LINES
	docker build -q --network host -t "$BUILD_IMAGE" "$WORK/golang" >/dev/null 2>"$LOGS/golang.log" ||
		{ echo "image: the build image: $(tail -n 3 "$LOGS/golang.log")" >&2; exit 1; }
	rm -rf "$WORK/golang"
}

# It is made again when one of those is another.
if [[ -z ${BUILD_IMAGE:-} ]]; then
	BUILD_IMAGE=mxl-golang:$({
		"$GO" version
		docker image inspect -f '{{.Id}}' "$RUNTIME_IMAGE"
		cat go.mod go.sum
	} | sha256sum | cut -c1-16)
	docker image inspect "$BUILD_IMAGE" >/dev/null 2>&1 || build_image
fi

build() {
	local tag=$1
	shift
	docker build --network host --progress plain --build-arg "BUILD_IMAGE=$BUILD_IMAGE" --build-arg "RUNTIME_IMAGE=$RUNTIME_IMAGE" \
		--build-arg "VERSION=$VERSION" --build-arg REVISION=0123abc -f "$CONTEXT/docker/Dockerfile" -t "$tag" "$@" "$CONTEXT" >>"$LOGS/build.log" 2>&1 ||
		{ tail -n 5 "$LOGS/build.log"; return 1; }
}
# figure NAME NUMBER: for build/results/image.json.
: >"$LOGS/figures"
figure() { echo "$1 $2" >>"$LOGS/figures"; }

run() { docker run --rm --network none "$@"; }
# layers IMAGE: bytes.
bytes() { docker image inspect -f '{{.Size}}' "$1"; }

point 1 "the image is built" build "$MXL_FABRICS_AGENT_IMAGE"
((failures == 0)) || finish
point 2 "the demo's registry is built" build "$MXL_FABRICS_AGENT_DEMO_IMAGE" --target demo

size() {
	local all base
	all=$(bytes "$MXL_FABRICS_AGENT_IMAGE") base=$(bytes "$RUNTIME_IMAGE")
	echo "$((all / 1000000)) MB, $(((all - base) / 1000000)) MB of them on top of the base image"
	figure image_bytes "$all"
	figure base_bytes "$base"
	# The agent, mxl-pattern, libfabric and the drivers.
	((all - base < 60000000))
}
point 3 "its size" size

user() {
	local got
	got=$(run --entrypoint id "$MXL_FABRICS_AGENT_IMAGE")
	echo "$got"
	[[ $got == "uid=1000(mxl) gid=1000(mxl) groups=1000(mxl)" ]]
}
point 4 "it runs as uid 1000" user

marks() {
	local inspected
	inspected=$(docker image inspect "$MXL_FABRICS_AGENT_IMAGE")
	jq -e --arg version "$VERSION" '.[0].Config |
		.User == "1000:1000" and .Entrypoint == ["/usr/local/bin/mxl-fabrics-agent"] and .Cmd == null and
		(.ExposedPorts | keys) == ["3232/tcp", "3233/tcp", "8095/tcp"] and
		.Labels["org.opencontainers.image.version"] == $version and
		.Labels["org.opencontainers.image.revision"] == "0123abc" and
		.Labels["org.opencontainers.image.licenses"] == "MIT" and
		.Labels["org.opencontainers.image.source"] == "https://github.com/mxl-stack/mxl-fabrics-agent"' <<<"$inspected" >/dev/null ||
		{ jq -c '.[0].Config' <<<"$inspected"; return 1; }
}
point 5 "user, entry point, ports and labels" marks

# A kernel without RDMA makes ibv_devices say "Function not implemented".
tools() {
	local out
	out=$(run --entrypoint sh "$MXL_FABRICS_AGENT_IMAGE" -c \
		'ibv_devices 2>&1; for c in ibv_devinfo curl mxl-pattern; do command -v $c; done; ls /usr/lib/*/libibverbs/ | sed "s/-rdmav.*//" | xargs') || { echo "$out"; return 1; }
	echo "${out//$'\n'/; }"
	grep -qE 'node GUID|Function not implemented' <<<"$out" && grep -q mlx5 <<<"$out" && grep -q irdma <<<"$out" &&
		(($(grep -c '^/usr/' <<<"$out") == 3))
}
point 6 "ibv_devices, curl, mxl-pattern, drivers for mlx5 and irdma" tools

# startup OPTIONS…: the capabilities that the log of a start names, and those that
# the kernel has as effective.
startup() {
	local id said= effective
	id=$(docker run -d --network none --tmpfs /Volumes/mxl:uid=1000 \
		-e DEFAULT_PROVIDER=tcp -e NMOS_ENABLE=false -e NMOS_HOST_ADDRESS=192.0.2.1 "$@" "$MXL_FABRICS_AGENT_IMAGE") || return 1
	started() {
		said=$(docker logs "$id" 2>&1 | jq -rR 'fromjson? | select(.event == "startup") | .capabilities')
		[[ -n $said ]]
	}
	within 20 started || docker logs "$id" 2>&1 | tail -n 3
	effective=$(docker exec "$id" sed -n 's/^CapEff:[[:space:]]*//p' /proc/1/status)
	docker rm -f "$id" >/dev/null
	echo "$said, effective $effective"
}
with_capabilities() {
	local got
	got=$(startup --cap-add SYS_NICE --cap-add IPC_LOCK --cap-add SYS_PTRACE)
	echo "$got"
	[[ $got == "sys_nice,ipc_lock,sys_ptrace, effective 0000000000884000" ]]
}
one_capability() {
	local got
	got=$(startup --cap-drop ALL --cap-add SYS_NICE)
	echo "$got"
	[[ $got == "sys_nice, effective 0000000000800000" ]]
}
without_capabilities() {
	local got
	got=$(startup --cap-drop ALL)
	echo "$got"
	[[ $got == "none, effective 0000000000000000" ]]
}
point 7 "the agent raises the capabilities that the container has" with_capabilities
point 8 "one of three is enough to start, and is raised" one_capability
point 9 "without any it starts too" without_capabilities

invalid() {
	local code=0 out
	out=$(run -e SCAN_INTERVAL_MS=1 "$MXL_FABRICS_AGENT_IMAGE" 2>&1) || code=$?
	echo "exit code $code, $out"
	((code == 78)) && jq -e '.key == "SCAN_INTERVAL_MS"' <<<"$out" >/dev/null
}
point 10 "an invalid setting ends it with 78" invalid

# Prometheus as Debian has it stands in for its image.
prometheus_image() {
	docker build -q --network host -t "$PROMETHEUS_IMAGE" - <<-LINES 2>>"$LOGS/build.log"
		FROM $RUNTIME_IMAGE
		RUN apt-get update && apt-get install -y --no-install-recommends prometheus && mkdir -p /prometheus
		ENTRYPOINT ["/usr/bin/prometheus"]
	LINES
}
point 11 "a Prometheus image from Debian's package" prometheus_image

DOMAIN=8c1d6a52-3f0e-4f5b-8b7e-2d9a4c6e1f0 FLOW=b7e04c1a-95d2-4e0f-a3c8-1f2e3d4c5b0
A=http://127.0.0.1:18095 B=http://127.0.0.1:18096
container() { compose ps -q "$1"; }

up() {
	COMPOSED=1
	compose up -d registry agent-a agent-b video audio controller prometheus >"$LOGS/compose.log" 2>&1 || { tail -n 5 "$LOGS/compose.log"; return 1; }
	within 30 answers "$A/readyz" || { docker logs "$(container agent-a)" 2>&1 | tail -n 3; return 1; }
	within 30 answers "$B/readyz" || { docker logs "$(container agent-b)" 2>&1 | tail -n 3; return 1; }
}
# Others of this machine may hold the demo's ports.
free() {
	local taken
	taken=$(ss -Hltn '( sport = :3210 or sport = :3211 or sport = :9090 or sport = :18095 or sport = :18096 or sport = :18300 )')
	[[ -z $taken ]] || { echo "$taken"; return 1; }
}
within 60 free || not_run "the demo's ports are taken: $(free)"
point 12 "the demo starts, both agents are ready" up

# verified N RATE: in host B's container the mirror's payload is right at the rate.
verified() {
	local n=$1 rate=$2 result
	try() {
		result=$(docker exec "$(container agent-b)" mxl-pattern read --wait 1s --duration 5s --behind 1 --require-rate "$rate" --json \
			"/Volumes/mxl/mirror-$DOMAIN$n" "$FLOW$n" 2>&1)
	}
	within 40 try || { echo "$result"; fetch "$B/api/v1/replications"; return 1; }
	figure "$3" "$(jq .rate <<<"$result")"
	jq -c '{verified, lost, bad, rate, latency_p99_ms}' <<<"$result"
}
point 13 "the video mirror is byte for byte right" verified 1 49 video_grains_per_s
point 14 "the audio mirror is byte for byte right" verified 2 47000 audio_samples_per_s

# A sandbox may hide processes from root too: the agent sees as much as root does.
readers() {
	local hidden=0 error maps
	for maps in /proc/[0-9]*/maps; do
		[[ ! -e $maps ]] || head -c 1 "$maps" >/dev/null 2>&1 || { [[ -e $maps ]] && hidden=$((hidden + 1)); }
	done
	if ((hidden == 0)); then
		within 10 shows '"readers_known":true' "$B/api/v1/mirrors" || { fetch "$B/api/v1/mirrors"; return 1; }
		return
	fi
	error=$(fetch "$B/api/v1/mirrors" | jq -r '.[0].readers_error')
	echo "root cannot look at $hidden of $(ls -d /proc/[0-9]* | wc -l) processes; the agent: $error"
	((${error%% *} <= hidden))
}
point 15 "the agent sees every process that root sees" readers

queries() {
	local out
	out=$(cd tests/deploy && "$GO" run ./cmd/queries -prometheus http://127.0.0.1:9090 -within 60s 2>&1) || { echo "$out"; return 1; }
	echo "$out"
	figure dashboard_queries "$(sed -nE 's/^([0-9]+) queries of the dashboard.*/\1/p' <<<"$out")"
	figure dashboard_queries_with_data "$(sed -nE 's/.*dashboard, ([0-9]+) with data.*/\1/p' <<<"$out")"
}
point 16 "the queries of dashboard and alerts run, and return data" queries

healthy() {
	state() { [[ $(docker inspect -f '{{.State.Health.Status}}' "$(container agent-b)") == healthy ]]; }
	within 30 state
}
point 17 "the container is healthy" healthy

stopped() {
	local code id
	id=$(container agent-b)
	compose stop --timeout 12 agent-b >>"$LOGS/compose.log" 2>&1
	code=$(docker inspect -f '{{.State.ExitCode}}' "$id")
	echo "exit code $code"
	((code == 143)) || { docker logs "$id" 2>&1 | tail -n 3; return 1; }
	within 10 shows '"up":false' "$A/api/v1/peers"
}
point 18 "a stopped agent exits 143 and its peer sees it" stopped

# Of ours: containers and volumes, mounts, processes of the engine, open ports.
nothing_left() {
	local own=$ENGINE_PID left
	left=$(docker ps -aq --filter "label=com.docker.compose.project=$PROJECT" && docker volume ls -q --filter "name=$PROJECT")
	[[ -z $left ]] || { echo "containers or volumes: $left"; return 1; }
	[[ -n $own ]] || return 0
	take_down
	left=$(grep -E "($WORK|$SHM)/" /proc/mounts | cut -d' ' -f2)
	[[ -z $left ]] || { echo "mounts: $left"; return 1; }
	left=$(grep -alE "($WORK|$SHM)/" /proc/[0-9]*/cmdline 2>/dev/null | grep -v "^/proc/$$/" | cut -d/ -f3 | xargs -r ps -o pid=,args= -p)
	left+=$(xargs -r ps -o pid=,args= -p <<<"$INSIDE")
	[[ -z $left ]] || { echo "processes: $left"; return 1; }
}
INSIDE=$(compose ps -q | xargs docker inspect -f '{{.State.Pid}}' | grep -vx 0 | paste -sd,)
compose_down() { compose logs --no-color >"$LOGS/demo.log" 2>&1 && compose down --volumes --timeout 12 >>"$LOGS/compose.log" 2>&1; }
if compose_down; then COMPOSED=; fi
point 19 "containers, volumes, mounts and the engine are gone" nothing_left

if ((failures == 0)); then
	figure seconds $((EPOCHSECONDS - BEGAN))
	mkdir -p build/results
	jq -nR '[inputs | split(" ") | {key: .[0], value: (.[1] | tonumber)}] | from_entries' <"$LOGS/figures" >build/results/image.json
fi
finish
