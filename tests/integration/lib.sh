# Shared by the integration scripts: processes, ports, polling and points.
# shellcheck shell=bash
#
# A script sets NAME, sources this file, and ends with `finish`. Each point of a
# script is one line, "ok <n> …" or "FAIL <n> …" with the evidence. Logs stay in
# build/integration/$NAME; everything that was started is ended and everything on
# /dev/shm is removed, whatever happens.

set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BIN=${BIN:-$ROOT/build/bin}
LOGS=$ROOT/build/integration/$NAME
rm -rf "$LOGS"
mkdir -p "$LOGS"

# MXL roots belong on a tmpfs; a container's 64 MB are too few for two rings of
# 1080p50, then any directory has to do.
SHM=/dev/shm
if (($(df --output=avail -k "$SHM" 2>/dev/null | tail -n 1 || echo 0) < 400000)); then
	SHM=${TMPDIR:-/tmp}
	echo "$NAME: less than 400 MB free on /dev/shm, MXL roots go to $SHM"
fi
SHM=$(mktemp -d "$SHM/mxl-$NAME-XXXXXX")

declare -A PIDS=()
failures=0

trap 'clean_up' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

clean_up() {
	local status=$? name
	set +e
	trap - EXIT
	for name in "${!PIDS[@]}"; do
		kill -TERM "${PIDS[$name]}" 2>/dev/null
	done
	for name in "${!PIDS[@]}"; do
		within 10 gone "${PIDS[$name]}" || kill -KILL "${PIDS[$name]}" 2>/dev/null
	done
	wait 2>/dev/null
	rm -rf "$SHM"
	exit "$status"
}

# start NAME COMMAND…: runs a program in the background; output to $LOGS/NAME.log,
# appended over restarts. The pid is in PIDS[NAME].
start() {
	local name=$1
	shift
	"$@" >>"$LOGS/$name.log" 2>>"$LOGS/$name.err" &
	PIDS[$name]=$!
}

# gone PID: the process has ended (a zombie waits for `wait` only).
gone() {
	local state
	state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null) || return 0
	[[ -z $state || $state == Z ]]
}

# stop NAME [SECONDS]: SIGTERM, SIGKILL after the time (10 s); the exit code is in
# STOPPED.
stop() {
	local name=$1 seconds=${2:-10} pid=${PIDS[$1]}
	kill -TERM "$pid" 2>/dev/null || true
	within "$seconds" gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
	STOPPED=0
	wait "$pid" || STOPPED=$?
	unset "PIDS[$name]"
}

# within SECONDS COMMAND…: polls every 50 ms until the command succeeds.
within() {
	local deadline=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
	shift
	until "$@"; do
		((${EPOCHREALTIME/[.,]/} < deadline)) || return 1
		sleep 0.05
	done
}

# port_block N: N consecutive ports nobody listens on, below the ephemeral range.
port_block() {
	local n=$1 base port used
	used=$(ss -Htan | awk '{ sub(/.*:/, "", $4); print $4 }' | sort -u)
	while :; do
		base=$((10000 + (RANDOM * 32768 + RANDOM) % (22000 - n)))
		for ((port = base; port < base + n; port++)); do
			grep -qx "$port" <<<"$used" && continue 2
		done
		echo "$base"
		return
	done
}

fetch() { curl -sS --noproxy '*' --max-time 5 "$@" 2>>"$LOGS/curl.err"; }

# answers URL: the URL answers 200.
answers() { fetch -f -o /dev/null "$1" 2>/dev/null; }

# shows PATTERN URL…: the body contains the pattern (extended regular expression).
shows() {
	local pattern=$1 body
	shift
	body=$(fetch -f "$@") && grep -qE -- "$pattern" <<<"$body"
}

# hides PATTERN URL…: there is a body and it does not contain the pattern.
hides() {
	local pattern=$1 body
	shift
	body=$(fetch -f "$@") && ! grep -qE -- "$pattern" <<<"$body"
}

# point N TEXT COMMAND…: one line of the report. The command's output, if any, is
# the evidence; a failing point does not end the script.
point() {
	local n=$1 text=$2 evidence started=${EPOCHREALTIME/[.,]/}
	shift 2
	if evidence=$("$@" 2>&1); then
		printf 'ok %s %s (%d ms)%s\n' "$n" "$text" $(((${EPOCHREALTIME/[.,]/} - started) / 1000)) "${evidence:+: ${evidence//$'\n'/; }}"
	else
		printf 'FAIL %s %s: %s\n' "$n" "$text" "${evidence:-no evidence}"
		failures=$((failures + 1))
	fi
}

# finish: the verdict.
finish() {
	if ((failures)); then
		echo "$NAME: $failures point(s) failed; logs in ${LOGS#"$ROOT"/}"
		exit 1
	fi
	echo "$NAME: all points passed"
}

# host_address: what an agent announces in NMOS documents: not loopback. Nothing
# connects to it.
host_address() {
	local address
	address=$(ip -4 -o addr show scope global | awk '{ sub(/\/.*/, "", $4); print $4; exit }')
	echo "${address:-192.0.2.1}"
}

# start_standin: the registry with one media node of one receiver.
start_standin() {
	start standin "$BIN/nmos-standin" "$@"
	within 10 test -s "$LOGS/standin.log"
	REGISTRY=$(jq -r .registry "$LOGS/standin.log")
	QUERY=$(jq -r .query "$LOGS/standin.log")
	CONTROL=$(jq -r .control "$LOGS/standin.log")
}

# control JSON: PUT /control.
control() { fetch -f -o /dev/null -X PUT -d "$1" "$CONTROL/control"; }

# agent_environment HOST WEB NMOS FABRIC: the environment of an agent as lines;
# callers add to it. Intervals are those of the contract's own test.
agent_environment() {
	local host=$1 web=$2 nmos=$3 fabric=$4
	mkdir -p "$SHM/$host" "$LOGS/state-$host"
	cat <<-LINES
		HOST_ID=$host
		MXL_ROOT=$SHM/$host
		STATE_DIR=$LOGS/state-$host
		WEB_PORT=$web
		NMOS_PORT=$nmos
		NMOS_HOST_ADDRESS=$(host_address)
		NMOS_REGISTRY_ADDRESS=127.0.0.1
		NMOS_REGISTRY_PORT=${REGISTRY##*:}
		NMOS_QUERY_PORT=${QUERY##*:}
		DEFAULT_PROVIDER=tcp
		FABRIC_INTERFACE=127.0.0.1
		FABRIC_PORT_BASE=$fabric
		FABRIC_PORT_COUNT=60
		TMPFS_RESERVE_MB=64
		SCAN_INTERVAL_MS=400
		PEER_POLL_INTERVAL_MS=400
		NMOS_POLL_INTERVAL_MS=400
		RELEASE_GRACE_MS=800
		MIRROR_GRACE_S=3
		LOCAL_NODE_CIDRS=127.0.0.0/8
	LINES
}
