#!/usr/bin/env bash
# Two of three origin flows of one domain end; a reader maps the mirror of one of
# them. What is removed and what stays: the contract's "Single mirror flows".
# Root in the host's PID namespace, or the reader check cannot see every process:
# then only the refusal is checked.
NAME=flow_cleanup

# In some sandboxes not even root may look at process 1. It reads no mirror of this
# test, so the script covers it with a process of its own, in a mount namespace that
# nobody else sees; without that only the refusal could be checked.
if ((EUID == 0)) && [[ -z ${COVER:-} ]] && ! head -c 1 /proc/1/maps >/dev/null 2>&1 && unshare -m true 2>/dev/null; then
	echo "$NAME: root may not look at process 1 here; it is covered for this script"
	exec unshare -m bash -c 'sleep 600 & mount --bind /proc/$! /proc/1 && COVER=$! exec bash "$0" "$@"' "$0" "$@"
fi

source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
[[ -z ${COVER:-} ]] || PIDS[cover]=$COVER

DOMAIN=7c1e5d2e-7a3b-4c6d-9e8f-0a1b2c3d4e5f
LIVE=1d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b01   # goes on
FREE=1d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b02   # ends, nobody reads its mirror
MAPPED=1d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b03 # ends, a reader maps its mirror
GRACE=2                                     # MIRROR_IDLE_GRACE_S
GUARD=30                                    # seconds after its start in which an agent removes nothing

start_standin
web_a=$(port_block 3) web_b=$(port_block 3)
A=http://127.0.0.1:$web_a B=http://127.0.0.1:$web_b
peer() {
	printf '[{"host_id":"%s","control_url":"%s/api/v1","provider":"tcp","local_fabric_addr":"127.0.0.1","remote_fabric_addr":"127.0.0.1"}]' "$1" "$2"
}
mapfile -t env_a < <(agent_environment host-a "$web_a" $((web_a + 1)) "$(port_block 60)")
mapfile -t env_b < <(agent_environment host-b "$web_b" $((web_b + 1)) "$(port_block 60)")
env_a+=("PEERS=$(peer host-b "$B")") env_b+=("PEERS=$(peer host-a "$A")" "MIRROR_IDLE_GRACE_S=$GRACE")
mirror=$SHM/host-b/mirror-$DOMAIN
log=$LOGS/host-b.log

now_ms() { echo $((${EPOCHREALTIME/[.,]/} / 1000)); }
write() { start "$1" "$BIN/mxl-pattern" write --domain-id "$DOMAIN" --flow-id "$2" --history-ms 200 --format smpte291 --rate 25 --json "$SHM/host-a/studio"; }
there() { [[ -e $mirror/$1.mxl-flow/data ]]; }
gone_from_disk() { [[ ! -e $mirror/$1.mxl-flow ]]; }
inode() { stat -c %i "$mirror/$1.mxl-flow/data"; }
row() { fetch "$B/api/v1/mirrors" | jq -c ".[] | select(.domain_id == \"$DOMAIN\")"; }
row_says() { row | jq -e "$1" >/dev/null; }
health() { row | jq -r ".flows[] | select(.flow_id == \"$1\") | .health | .state + \" \" + .reason"; }
logged() { grep "\"event\":\"$1\"" "$log" | grep "$2" | grep -qE -- "${3:-.}"; }
dry_run() { fetch -f -o /dev/null -X PUT -H 'content-type: application/json' -d "{\"MIRROR_CLEANUP_DRY_RUN\":\"$1\"}" "$B/api/v1/config"; }
evidence() { fetch "$B/api/v1/mirrors"; grep -E 'mirror_flow|mirror_domain' "$log" | tail -n 5; }
explain() { "$@" || { evidence; return 1; }; }

start host-a env "${env_a[@]}" "$BIN/mxl-fabrics-agent"
start host-b env "${env_b[@]}" "$BIN/mxl-fabrics-agent"
began=$(now_ms)
guarded() { (($(now_ms) < began + GUARD * 1000)); }
both_ready() { within 30 answers "$A/readyz" && within 30 answers "$B/readyz"; }
point 1 "both agents are ready" explain both_ready

write live "$LIVE"
write free "$FREE"
write mapped "$MAPPED"
mirrored() { within 10 there "$LIVE" && within 10 there "$FREE" && within 10 there "$MAPPED"; }
point 2 "three flows of one domain are mirrored" explain mirrored
live_inode=$(inode "$LIVE")

start reader "$BIN/mxl-pattern" hold "$mirror" "$MAPPED"
within 10 grep -q holding "$LOGS/reader.log"
reader=${PIDS[reader]}
dry_run true

# checked: a reader check that knew of the mirrors has been made.
checked() { row_says '.readers_known or .readers_error != ""' && ! row_says '.readers_error | test("no reader check|newer than")'; }
within 10 checked || true
if row_says '.readers_known'; then
	complete=1
	seen() { within 10 row_says ".readers == [{\"pid\":$reader,\"comm\":\"mxl-pattern\"}]" && row | jq -c .readers; }
	point 3 "the mirror's reader is listed, and the agent's own mappings are not" explain seen
else
	complete=0
	incomplete() { row_says '.readers_known == false and .readers_error != ""' && row | jq -r .readers_error; }
	point 3 "the reader check is incomplete and says why" explain incomplete
fi

stop free
stop mapped
origin_gone() { within 5 hides "$FREE|$MAPPED" "$A/api/v1/inventory"; }
point 4 "two of the three origin flows end" origin_gone
noticed() { within 10 logged mirror_flow_origin_missing "$FREE" && within 10 logged mirror_flow_origin_missing "$MAPPED" && [[ $(health "$FREE") == "idle origin_missing" ]] && health "$FREE"; }
point 5 "their mirrors are idle, origin_missing; the grace time of $GRACE s starts" explain noticed

if ((!complete)); then
	dry_run false
	refused() { within $((GUARD + 15)) logged mirror_flow_kept_reader "$FREE" && within 10 logged mirror_flow_kept_reader "$MAPPED"; }
	point 6 "their removal is refused, because not every process can be seen" explain refused
	all_there() { there "$FREE" && there "$MAPPED" && there "$LIVE" && ! grep -q '"event":"mirror_flow_removed"' "$log"; }
	point 7 "all three mirror flows stay" explain all_there
	stop reader
	counted() { within 5 shows 'mirror_flows_refused_total\{reason="origin_missing"\} [1-9]' "$B/metrics"; }
	point 8 "the refusals are counted" counted
	echo "$NAME: the reader check is incomplete here; removals were not checked"
	finish
	exit
fi

# Nothing goes in the first 30 s; the grace time is long over by then.
in_guard() {
	while guarded; do
		there "$FREE" && there "$MAPPED" || { echo "removed after $(($(now_ms) - began)) ms"; return 1; }
		sleep 0.2
	done
}
point 6 "nothing is removed in the first $GUARD s of the agent" in_guard

would() { within 15 logged mirror_flow_would_remove "$FREE" && there "$FREE" && there "$MAPPED" && ! grep -q '"event":"mirror_flow_removed"' "$log"; }
point 7 "a dry run only says what would be removed" explain would

dry_run false
removed() { within 10 gone_from_disk "$FREE" && within 5 logged mirror_flow_removed "$FREE" '"reason":"origin_missing"' && grep '"mirror_flow_removed"' "$log" | jq -c '{reason, missing_s, path}'; }
point 8 "the flow nobody reads is removed" explain removed

kept() { within 10 logged mirror_flow_kept_reader "$MAPPED" "$reader \\(mxl-pattern\\)" && there "$MAPPED" && grep '"mirror_flow_kept_reader"' "$log" | tail -n 1 | jq -c '{readers}'; }
point 9 "the mapped flow is kept, and the log names its reader" explain kept

absent() { within 5 row_says ".flows[] | select(.flow_id == \"$FREE\") | .health.state == \"absent\" and .health.reason == \"origin_missing\""; }
point 10 "the removed flow is absent, origin_missing" explain absent

# Three more reader checks: the mapped flow still stays.
checks() { fetch "$B/metrics" | sed -n 's/^mxl_fabrics_agent_reconcile_work_seconds_count{.*work="reader_scan".*} //p'; }
still_kept() {
	local until
	until=$(($(checks) + 3))
	more() { (($(checks) >= until)); }
	within 20 more || { echo "reader checks: $(checks)"; return 1; }
	there "$MAPPED" || { echo "it went"; return 1; }
	! logged mirror_flow_removed "$MAPPED" && (($(grep -c '"mirror_flow_kept_reader"' "$log") == 1)) || { grep '"mirror_flow_kept_reader"' "$log"; return 1; }
}
point 11 "it stays over three more reader checks, with one line in the log" still_kept

stop reader
freed() { within 10 gone_from_disk "$MAPPED" && within 5 logged mirror_flow_removed "$MAPPED" '"reason":"origin_missing"'; }
point 12 "it is removed when its reader has ended" explain freed

untouched() {
	[[ $(inode "$LIVE") == "$live_inode" ]] || { echo "inode $live_inode became $(inode "$LIVE")"; return 1; }
	[[ -e $mirror/domain_def.json ]] || { echo "the domain's definition is gone"; return 1; }
	row_says '.state == "active"' || { row; return 1; }
	[[ -e $SHM/host-a/studio/domain_def.json ]] || { echo "the origin domain is gone"; return 1; }
	! compgen -G "$mirror/.mxl-*" || { echo "something half-made is left"; return 1; }
}
point 13 "the live flow, its inode and the domain stay" explain untouched

control "{\"master_enable\":true,\"mxl_domain_id\":\"$DOMAIN\",\"mxl_flow_id\":\"$LIVE\"}"
alive() {
	once() { timeout 5 "$BIN/mxl-pattern" read --wait 1s --duration 1s --require-rate 1 "$mirror" "$LIVE" >"$LOGS/read.last" 2>&1; }
	within 25 once || { tail -n 3 "$LOGS/read.last"; return 1; }
	head -n 1 "$LOGS/read.last"
}
point 14 "the live flow replicates" alive

counters() {
	within 5 shows 'mirror_flows_removed_total\{reason="origin_missing"\} 2' "$B/metrics" &&
		shows 'mirror_flows_refused_total\{reason="origin_missing"\} [1-9]' "$B/metrics" || { fetch "$B/metrics" | grep mirror_flows; return 1; }
}
point 15 "two removals and the refusal are counted" counters

write free "$FREE"
back() { within 10 there "$FREE" && within 5 logged mirror_rebuilt "$FREE" '"reason":"origin_missing"' && row_says ".flows[] | select(.flow_id == \"$FREE\") | .health.rebuilds == 1 and .health.last_rebuild_reason == \"origin_missing\""; }
point 16 "an origin that comes back is a rebuild with that reason" explain back

finish
