#!/usr/bin/env bash
# What the agent survives, in one go: three hosts and their links, the fault matrix,
# endurance, scale, and the fabric over Soft-RoCE. Prints the tables of all of them
# and a summary of what was measured in this run; build/results/prove.json has the
# verdicts, build/prove/<step>.log what a step printed.
#
#   tests/tools/prove.sh                          every step
#   PROVE="faults endurance" tests/tools/prove.sh these
#
# FAULT_REPEATS (3), PROVE_DURATION of the endurance (2m) and RDMA_VM as for the
# targets. A step that this machine cannot run is told as such; named in PROVE it is a
# failure. The exit code is 0 when every step that ran passed.
set -uo pipefail
cd "$(dirname "$0")/../.."
export LC_ALL=C.UTF-8

: "${FAULT_REPEATS:=3}" "${PROVE_DURATION:=2m}" "${RDMA_VM:=../shared/rdma-vm/rdma-vm}"
LOGS=build/prove
all='links faults endurance scale vm'
steps=${PROVE:-$all}
for step in $steps; do
	[[ " $all " == *" $step "* ]] || {
		echo "prove: PROVE names \"$step\"; steps are: $all" >&2
		exit 2
	}
done
rm -rf "$LOGS"
mkdir -p "$LOGS" build/results

child=
trap '[[ -z $child ]] || { kill -TERM "$child"; wait "$child"; }; exit 130' INT TERM

# command STEP: how a step is run.
command_of() {
	case $1 in
	links) echo "make links" ;;
	faults) echo "make faults FAULT_REPEATS=$FAULT_REPEATS" ;;
	endurance) echo "make endurance DURATION=$PROVE_DURATION" ;;
	scale) echo "make scale" ;;
	vm) echo "make verbs RDMA_VM=$RDMA_VM" ;;
	esac
}

# impossible STEP: why a step cannot run here, or nothing.
impossible() {
	case $1 in
	links | faults | endurance)
		((EUID == 0)) || echo "network namespaces take root"
		;;
	vm)
		[[ -x $RDMA_VM ]] || echo "no machine with Soft-RoCE at $RDMA_VM"
		;;
	esac
}

# figures STEP: one line of what it measured.
figures() {
	local file=build/results/$1.json
	[[ $1 == vm ]] && file=build/results/verbs.json
	[[ $file -nt $LOGS/began ]] || return 0
	case $1 in
	faults)
		jq -r '"\(.scenarios) scenarios, \(.failed) failed, \(.lost_on_untouched_flows) lost on flows that a fault does not touch, \(.bad) of \(.verified) verified grains and samples bad; "
			+ ([["source SIGKILL", "source_sigkill"], ["destination SIGKILL", "destination_sigkill"], ["cable", "cable"], ["writer created again", "writer_sigterm"]]
			| map(. as $s | "\($s[0]) \($in[$s[1] + "_recovery_p50_ms"] // "-" | if type == "number" then round else . end) ms") | join(", "))' --argjson in "$(<"$file")" "$file"
		;;
	endurance)
		jq -r '"\(.seconds | round) s, \(.flows) flows on \(.paths) paths, \(.lost) lost, \(.bad) bad of \(.verified); \(.anon_but_stacks_slope_kib_per_min | round) ± \(.anon_but_stacks_slope_error | round) KiB, \(.descriptors_slope_per_min * 100 | round / 100) descriptors, \(.threads_slope_per_min * 100 | round / 100) threads, \(.log_lines_per_min * 10 | round / 10) lines of log a minute"' "$file"
		;;
	*)
		# The first figures of a flat document say what it is about.
		jq -r 'to_entries | map(select(.value | type == "number")) | .[:6] | map("\(.key) \(.value * 100 | round / 100)") | join(", ")' "$file"
		;;
	esac
}

state=$(git rev-parse --short HEAD 2>/dev/null || echo "no commit")
[[ -z $(git status --porcelain 2>/dev/null) ]] || state+=" with changes"
head="$state · $(uname -sr) · $(nproc) processors · load $(cut -d' ' -f1 /proc/loadavg) · steps: $steps"
echo "prove: $head"

table= failed=0 left=0 began=$SECONDS
: >"$LOGS/summary"
for step in $steps; do
	echo && echo "prove: == $step"
	touch "$LOGS/began"
	start=$SECONDS result= notes=
	if why=$(impossible "$step") && [[ -n $why ]]; then
		result="not run" notes=$why left=$((left + 1))
		[[ -z ${PROVE:-} ]] || failed=$((failed + 1))
		echo "prove: $step is not run: $why"
	else
		: >"$LOGS/$step.log"
		# shellcheck disable=SC2046 # a command and its arguments
		$(command_of "$step") </dev/null >"$LOGS/$step.log" 2>&1 &
		child=$!
		tail -n +1 -f --pid="$child" "$LOGS/$step.log" &
		shown=$!
		if wait "$child"; then result=passed; else
			result=FAILED failed=$((failed + 1))
		fi
		child=
		wait "$shown"
		notes=$(figures "$step")
		[[ $result == passed ]] || notes+=$([[ -n $notes ]] && echo "; ")$(grep -vE '^make' "$LOGS/$step.log" | tail -n 1)
	fi
	printf -v line '%-10s %-8s %5d s  %s' "$step" "$result" $((SECONDS - start)) "$notes"
	table+=$line$'\n'
	printf '%s %s %s\n' "$step" "$([[ $result == passed ]] && echo 1 || echo 0)" $((SECONDS - start)) >>"$LOGS/summary"
done

jq -nR --argjson failed "$failed" --argjson left "$left" '[inputs | split(" ") | {("\(.[0])_passed"): (.[1] | tonumber),
	("\(.[0])_seconds"): (.[2] | tonumber)}] | add + {steps_failed: $failed, steps_not_run: $left}' <"$LOGS/summary" >build/results/prove.json

echo && echo "prove: $head"
printf '%s' "$table"
((left == 0)) || echo "prove: $left step(s) could not be run on this machine and prove nothing"
if ((failed)); then
	echo "prove: $failed step(s) FAILED, $((SECONDS - began)) s; logs in $LOGS"
	exit 1
fi
echo "prove: everything that ran passed, $((SECONDS - began)) s"
