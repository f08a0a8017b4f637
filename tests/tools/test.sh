#!/usr/bin/env bash
# Formatting, vet and every test: with the race detector, then once more
# without it where tests count allocations or time (files marked !race).
# RACE=0 leaves the race detector out, for machines without it.
set -euo pipefail

: "${GO:=go}" "${RACE:=1}"

tests/tools/check.sh quick

# What is shipped to run the agent: a module of its own, for its dependencies.
(cd tests/deploy && "$GO" vet ./... && "$GO" test ./...)

# One package at a time: many tests pace real flows, and two of them at once would
# be each other's load.
if [[ $RACE == 0 ]]; then
	exec "$GO" test -p 1 -timeout 15m ./...
fi
"$GO" test -p 1 -race -timeout 15m ./...

mapfile -t unraced < <(grep -rlE '^//go:build .*!race' --include='*_test.go' . | xargs -r -n1 dirname | sort -u)
if ((${#unraced[@]})); then
	echo "without the race detector:"
	"$GO" test -p 1 -timeout 15m "${unraced[@]}"
fi
