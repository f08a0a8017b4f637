#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other,
# and goes on after a failure. Usage: fuzz.sh [time]
set -euo pipefail

: "${GO:=go}"
each=${1:-60s}

targets=()
for package in $("$GO" list ./...); do
	while read -r name; do
		targets+=("$package $name")
	done < <("$GO" test -list '^Fuzz' "$package" | grep '^Fuzz' || true)
done
if ((${#targets[@]} == 0)); then
	echo "fuzz: no fuzz targets found" >&2
	exit 1
fi

failed=()
for i in "${!targets[@]}"; do
	read -r package name <<<"${targets[$i]}"
	echo "[$((i + 1))/${#targets[@]}] $name in ${package##*mxl-fabrics-agent/}, $each"
	if ! "$GO" test -run '^$' -fuzz "^$name\$" -fuzztime "$each" "$package" | sed 's/^/    /'; then
		failed+=("$name")
	fi
done
if ((${#failed[@]})); then
	echo "fuzz: failed: ${failed[*]}" >&2
	exit 1
fi
echo "fuzz: ${#targets[@]} targets, $each each, no failure"
