#!/usr/bin/env bash
# A verbs device gets its address after the agent has started, in an emulated machine
# with Soft-RoCE (the rdma-vm bench, $RDMA_VM or ../shared/rdma-vm/rdma-vm); writes
# build/results/late_address.json. Run it from the top of the tree.
#
#   LIBFABRIC    directory of another libfabric.so.1 to run with, besides the system's
#                (2.2 or later, with the verbs provider)
set -euo pipefail

: "${GO:=go}" "${RDMA_VM:=../shared/rdma-vm/rdma-vm}" "${LIBFABRIC:=}"
result=build/results/late_address.json
work=build/late
mkdir -p build/results "$work/bin"
rm -f "$result" # a run that fails early must not leave an older result

if [[ ! -x $RDMA_VM ]]; then
	echo "late-address: there is no $RDMA_VM; set RDMA_VM to the bench" >&2
	exit 1
fi
if ! "$RDMA_VM" --prepare; then
	if command -v qemu-system-x86_64 >/dev/null; then
		echo "late-address: $RDMA_VM cannot be prepared" >&2
		exit 1
	fi
	echo "late-address: LEFT OUT: QEMU is not installed here and cannot be (see above)"
	exit 0
fi
"$GO" build -o "$work/bin/" ./cmd/mxl-fabrics-agent ./cmd/mxl-pattern ./tests/links/lateaddress

: >"$work/results.txt"
failed=0
# once PREFIX LIBRARY-DIRECTORY: one boot.
once() {
	local log=$work/$1.log status=0
	echo "late-address: libfabric of ${2:-the system}"
	"$RDMA_VM" --share "$work" --icount --mem 1536 --timeout 600 -- \
		env ${2:+LD_LIBRARY_PATH="$2"} "$work/bin/lateaddress" -bin "$work/bin" -logs "$work/logs-$1" >"$log" 2>&1 || status=$?
	sed -n "s/^RESULT /$1_/p" "$log" >>"$work/results.txt"
	sed 's/^/  /' "$log" | cut -c -300
	if ((status)); then
		echo "late-address: ended with code $status, see $log" >&2
		failed=1
	fi
}
once system ''
if [[ $LIBFABRIC ]]; then
	once other "$LIBFABRIC"
fi
jq -Rn '[inputs | split(" ") | {key: .[0], value: (.[1] | tonumber)}] | from_entries' "$work/results.txt" >"$result"
jq . "$result"
exit "$failed"
