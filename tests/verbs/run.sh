#!/usr/bin/env bash
# The fabric over verbs: builds what is needed, runs it in an emulated machine with
# Soft-RoCE devices (the rdma-vm bench, $RDMA_VM or ../shared/rdma-vm/rdma-vm), and
# writes build/results/verbs.json. Run it from the top of the tree.
#
#   DURATION     how long the flows are verified (60s)
#   HANDSHAKES   how many handshakes are broken (200)
set -euo pipefail

: "${GO:=go}" "${DURATION:=60s}" "${HANDSHAKES:=200}" "${RDMA_VM:=../shared/rdma-vm/rdma-vm}"
result=build/results/verbs.json
work=build/verbs
mkdir -p build/results "$work/bin"
rm -f "$result" # a run that fails early must not leave an older result

if [[ ! -x $RDMA_VM ]]; then
	echo "verbs: there is no $RDMA_VM; set RDMA_VM to the bench" >&2
	exit 1
fi
# The bench installs QEMU and a kernel as root. Only where QEMU cannot be had at all
# is this part left out.
if ! "$RDMA_VM" --prepare; then
	if command -v qemu-system-x86_64 >/dev/null; then
		echo "verbs: $RDMA_VM cannot be prepared" >&2
		exit 1
	fi
	echo "verbs: LEFT OUT: QEMU is not installed here and cannot be (see above)"
	exit 0
fi

echo "verbs: building"
"$GO" test -tags verbs -c -o "$work/bin/fabrics.test" ./fabrics
"$GO" build -o "$work/bin/" ./cmd/mxl-fabrics-agent ./cmd/mxl-pattern ./tests/verbs

out=$work/results.txt
: >"$out"
# vm TITLE BENCH-OPTION... -- COMMAND...: one boot. Its output goes to a log; lines
# "RESULT name number" are gathered.
vm() {
	local title=$1 log status=0
	shift
	log=$work/$title.log
	echo "verbs: $title"
	"$RDMA_VM" --share "$work" "$@" >"$log" 2>&1 || status=$?
	sed -n 's/^RESULT //p' "$log" >>"$out"
	grep -vE '^(=== RUN|RESULT |PASS$)' "$log" | sed 's/^/  /' | cut -c -300
	if ((status)); then
		echo "verbs: $title ended with code $status, see $log" >&2
		failed=1
	fi
}
failed=0
echo "verbs: links of which an end falls back, and a connection that is broken off, on this host"
if ! "$work/bin/verbs" -part tcp -bin "$work/bin" -logs "$work/logs-tcp" >"$work/tcp.log" 2>&1; then
	echo "verbs: the part without devices failed" >&2
	failed=1
fi
grep -v '^RESULT ' "$work/tcp.log" | sed 's/^/  /'
sed -n 's/^RESULT //p' "$work/tcp.log" >>"$out"
# In guest time, which the load of the host does not disturb.
vm lanes --icount --timeout 1200 -- "$work/bin/fabrics.test" -test.v -test.timeout 20m -test.run 'Verbs(Grains|Foreign|Samples|QueuePairs|Retries|SilentHost|Torn|BrokenOff)'
vm stalls --icount --timeout 900 -- "$work/bin/fabrics.test" -test.v -test.run VerbsStalls
vm agents --icount --mem 1536 --timeout 900 -- "$work/bin/verbs" -bin "$work/bin" -logs "$work/logs" -duration "$DURATION"
vm handshakes --icount --timeout 3600 --env VERBS_HANDSHAKES="$HANDSHAKES" -- "$work/bin/fabrics.test" -test.v -test.timeout 60m -test.run VerbsBroken

jq -Rn '[inputs | split(" ") | {key: .[0], value: (.[1] | tonumber)}] | from_entries' "$out" >"$result"
jq . "$result"
for name in grains_lost samples_lost ack_timeout_read_back retry_count_read_back stall_ms_at_14 stall_ms_at_17 handshakes_broken handshakes_recovered torn_grains_taken_back broken_grains_discarded fallback_links; do
	if ! jq -e --arg name "$name" 'has($name)' "$result" >/dev/null; then
		echo "verbs: no result $name" >&2
		failed=1
	fi
done
exit "$failed"
