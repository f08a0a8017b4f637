#!/usr/bin/env bash
# One agent with MXL_CLEANUP_ON_EXIT=true on a root that holds a mirror of its
# own, another agent's mirror and a local domain: what SIGTERM leaves behind.
NAME=shutdown
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

OWN=11111111-1111-4111-8111-111111111111
FOREIGN=22222222-2222-4222-8222-222222222222
LOCAL=33333333-3333-4333-8333-333333333333

start_standin
web=$(port_block 3)
URL=http://127.0.0.1:$web
mapfile -t environment < <(agent_environment host-x "$web" $((web + 1)) "$(port_block 60)")
environment+=("MXL_DOMAIN_SCAN_PATH=$SHM/host-x" MXL_CLEANUP_ON_EXIT=true)
root=$SHM/host-x

# mirror_domain ID OWNER: a mirror directory as an agent leaves it.
mirror_domain() {
	mkdir -p "$root/mirror-$1"
	cat >"$root/mirror-$1/domain_def.json" <<-JSON
		{"id":"$1","label":"mirror $1","description":"","tags":{},
		 "x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"host-y","owner_host_id":"$2"}}
	JSON
}
mirror_domain "$OWN" host-x
mirror_domain "$FOREIGN" host-z
start writer "$BIN/mxl-pattern" write --domain-id "$LOCAL" --format smpte291 --rate 25 --json "$root/local"

start host-x env "${environment[@]}" "$BIN/mxl-fabrics-agent"

ready() { within 10 answers "$URL/readyz" || { echo "$(fetch "$URL/readyz") $(tail -n 3 "$LOGS/host-x.err")"; return 1; }; }
point 1 "/readyz answers 200 within 10 s" ready

node_id() { fetch "$CONTROL/registered" | jq -r '.[0].id // empty'; }
node=$(node_id)
visible() {
	[[ -n $node ]] || { echo "no node registered"; return 1; }
	within 5 answers "$QUERY/x-nmos/query/v1.3/nodes/$node" || { echo "node $node is not listed"; return 1; }
	echo "$node"
}
point 2 "the agent's node is on the Query API" visible

exported() {
	fetch "$URL/api/v1/config/export" >"$LOGS/export.json"
	jq -e '.MXL_CLEANUP_ON_EXIT == "true" and .NMOS_DNS_SD == "false" and has("NMOS_SEED")' "$LOGS/export.json" >/dev/null || {
		jq -c '{MXL_CLEANUP_ON_EXIT, NMOS_DNS_SD, NMOS_SEED}' "$LOGS/export.json"
		return 1
	}
}
point 3 "the export names the settings and their values as strings" exported

began=${EPOCHREALTIME/[.,]/}
stop host-x 12
took=$(((${EPOCHREALTIME/[.,]/} - began) / 1000))
exit_code() {
	((STOPPED == 143)) || { echo "exit code $STOPPED"; return 1; }
	echo "after $took ms"
}
point 4 "SIGTERM ends it with exit code 143" exit_code

in_time() { ((took < 2000)) || { echo "$took ms"; return 1; }; }
point 5 "in under 2 s" in_time

deregistered() {
	fetch "$CONTROL/deleted" | jq -e --arg node "$node" 'any(endswith("/resource/nodes/" + $node))' >/dev/null || {
		fetch "$CONTROL/deleted"
		return 1
	}
}
point 6 "the registry saw the DELETE of the node" deregistered

own_gone() { [[ ! -e $root/mirror-$OWN ]] || { ls -R "$root/mirror-$OWN"; return 1; }; }
point 7 "its own mirror is gone" own_gone

others_kept() {
	[[ -e $root/mirror-$FOREIGN/domain_def.json ]] || { echo "the foreign mirror is gone"; return 1; }
	[[ -e $root/local/domain_def.json ]] || { echo "the local domain is gone"; return 1; }
	! gone "${PIDS[writer]}" || { echo "the writer died"; return 1; }
}
point 8 "the foreign mirror and the local domain are kept" others_kept

finish
