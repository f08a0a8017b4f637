#!/usr/bin/env bash
# Two agents, two MXL roots, tcp on loopback, an NMOS registry with one receiver:
# the thirteen points of the contract's integration test.
NAME=tcp_mesh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# One domain on host A; a flow for each kind of step.
DOMAIN=5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e5f
DATA=0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a01
VIDEO=0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a02
AUDIO=0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a03
GAPS=0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a04
UNKNOWN=0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5aff
AUDIO_DOMAIN=6a5b1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e60

start_standin
web_a=$(port_block 3) web_b=$(port_block 3)
A=http://127.0.0.1:$web_a B=http://127.0.0.1:$web_b
peer() {
	printf '[{"host_id":"%s","control_url":"%s/api/v1","provider":"tcp","local_fabric_addr":"127.0.0.1","remote_fabric_addr":"127.0.0.1"}]' "$1" "$2"
}
mapfile -t env_a < <(agent_environment host-a "$web_a" $((web_a + 1)) "$(port_block 60)")
mapfile -t env_b < <(agent_environment host-b "$web_b" $((web_b + 1)) "$(port_block 60)")
env_a+=("PEERS=$(peer host-b "$B")") env_b+=("PEERS=$(peer host-a "$A")")
root_a=$SHM/host-a/studio root_b=$SHM/host-b

agent_a() { start host-a env "${env_a[@]}" "$BIN/mxl-fabrics-agent"; }
agent_b() { start host-b env "${env_b[@]}" "$BIN/mxl-fabrics-agent"; }
enable() { control "{\"master_enable\":true,\"mxl_domain_id\":\"$1\",\"mxl_flow_id\":\"$2\"}"; }
disable() { control '{"master_enable":false}'; }
mirror() { echo "$root_b/mirror-$1"; }

# write NAME FLOW [OPTIONS]: a media function on host A.
write() {
	local name=$1 flow=$2
	shift 2
	start "$name" "$BIN/mxl-pattern" write --domain-id "$DOMAIN" --flow-id "$flow" --history-ms 200 --json "$@" "$root_a"
}

# good DOMAIN FLOW [OPTIONS]: for a second every grain (sample) that the mirror gets
# is at its own index with the payload of that index, and nothing is missing.
good() {
	local domain=$1 flow=$2
	shift 2
	timeout 5 "$BIN/mxl-pattern" read --wait 1s --duration 1s --require-rate 1 "$@" "$(mirror "$domain")" "$flow" >"$LOGS/read.last" 2>&1
}

# arriving DOMAIN FLOW [OPTIONS]: good within 25 s.
arriving() {
	within 25 good "$@" && return
	echo "$(tail -n 3 "$LOGS/read.last"); B: $(fetch "$B/api/v1/replications"); A: $(fetch "$A/api/v1/replications")"
	return 1
}

# at_least RATE DOMAIN FLOW: grains or samples per second at the mirror over 10 s.
at_least() {
	local least=$1 domain=$2 flow=$3 result
	result=$("$BIN/mxl-pattern" rate --duration 10s --min "$least" --json "$(mirror "$domain")" "$flow" 2>>"$LOGS/rate.err") || {
		echo "${result:-$(tail -n 1 "$LOGS/rate.err")}"
		return 1
	}
	jq -r '"\(.rate) a second"' <<<"$result"
}

# 1
agent_a
agent_b
both_live() {
	within 30 answers "$A/livez" || { echo "A does not answer: $(tail -n 3 "$LOGS/host-a.err")"; return 1; }
	within 30 answers "$B/livez" || { echo "B does not answer: $(tail -n 3 "$LOGS/host-b.err")"; return 1; }
}
point 1 "both agents answer /livez" both_live

# 2
write data "$DATA" --format smpte291 --rate 25
mirrored() { within 10 shows "$DATA" "$B/api/v1/mirrors" || { fetch "$B/api/v1/mirrors"; return 1; }; }
point 2 "the mirror is listed before any activation" mirrored

# 3
enable "$DOMAIN" "$DATA"
point 3 "after activation the mirror's grains carry their own index and payload" arriving "$DOMAIN" "$DATA"

# 4
disable
released() { within 9 hides "$DATA" "$A/api/v1/replications" || { fetch "$A/api/v1/replications"; return 1; }; }
point 4 "after deactivation the source releases the target" released

# 5
stop host-a 12
exit_a=$STOPPED
stop data
peer_down() {
	within 10 shows '"up":false' "$B/api/v1/peers" || { fetch "$B/api/v1/peers"; return 1; }
	((exit_a == 143)) || { echo "the stopped agent exited $exit_a, not 143"; return 1; }
}
point 5 "a stopped source is a peer that is down" peer_down

# 6
agent_a
write data "$DATA" --format smpte291 --rate 25
enable "$DOMAIN" "$DATA"
point 6 "replication resumes when the source is back" arriving "$DOMAIN" "$DATA"

# 7
enable "$DOMAIN" "$UNKNOWN"
stale() { within 10 shows stale_reference "$B/api/v1/demand" || { fetch "$B/api/v1/demand"; return 1; }; }
point 7 "a flow the source does not have is a stale_reference" stale
disable
stop data

# 8
write video "$VIDEO" --format v210 --rate 50
enable "$DOMAIN" "$VIDEO"
video_rate() { arriving "$DOMAIN" "$VIDEO" && at_least 45 "$DOMAIN" "$VIDEO"; }
point 8 "1080p50 with a 200 ms ring arrives at 50 grains/s" video_rate
stop video

# 9
start audio "$BIN/mxl-pattern" write --domain-id "$AUDIO_DOMAIN" --flow-id "$AUDIO" --history-ms 200 --json \
	--format audio --channels 2 --batch 48 "$SHM/host-a/sound"
enable "$AUDIO_DOMAIN" "$AUDIO"
audio_rate() { arriving "$AUDIO_DOMAIN" "$AUDIO" && at_least 45000 "$AUDIO_DOMAIN" "$AUDIO"; }
point 9 "2 channels in 1 ms batches arrive at 48,000 samples/s" audio_rate
stop audio

# 10
write video "$VIDEO" --format v210 --rate 50 --recreate-after 8s
enable "$DOMAIN" "$VIDEO"
recreated() {
	local inode now
	arriving "$DOMAIN" "$VIDEO" || return 1
	inode=$(stat -c %i "$(mirror "$DOMAIN")/$VIDEO.mxl-flow/data")
	within 15 grep -q '"origin_changed"' "$LOGS/host-a.log" || { echo 'no "origin_changed" in the log of A'; return 1; }
	arriving "$DOMAIN" "$VIDEO" || return 1
	at_least 45 "$DOMAIN" "$VIDEO" || return 1
	now=$(stat -c %i "$(mirror "$DOMAIN")/$VIDEO.mxl-flow/data")
	[[ $inode == "$now" ]] || { echo "the mirror's inode went from $inode to $now"; return 1; }
}
point 10 "a flow that its writer creates again goes on into the same mirror" recreated

# 11
before=$(wc -l <"$LOGS/host-a.log")
stop host-b 12
quiet() {
	local lines
	# Three seconds of the source's log are the measurement.
	sleep 3
	lines=$(($(wc -l <"$LOGS/host-a.log") - before))
	((lines <= 20)) || { echo "$lines lines in the log of A"; return 1; }
	echo "$lines lines"
}
point 11 "a destination that goes costs the source a few log lines" quiet

# 12
agent_b
point 12 "the destination is back and so is the rate" video_rate
stop video

# 13
write gaps "$GAPS" --format v210 --width 640 --height 360 --rate 50 --skip-every 10 --skip-length 3
enable "$DOMAIN" "$GAPS"
gaps() {
	arriving "$DOMAIN" "$GAPS" --allow-gaps && at_least 35 "$DOMAIN" "$GAPS" || return 1
	within 5 shows '"origin_gaps":[1-9]' "$A/api/v1/replications" || { fetch "$A/api/v1/replications"; return 1; }
}
point 13 "unwritten indexes are passed over and counted" gaps

finish
