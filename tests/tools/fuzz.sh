#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, one after the other,
# and goes on after a failure. Usage: fuzz.sh [time]
set -euo pipefail

: "${GO:=go}"
each=${1:-60s}

# `go test -list` prints the names of a package, then "ok <package> <time>".
listing=$("$GO" test -list '^Fuzz' ./...) || {
	echo "fuzz: a package does not build" >&2
	exit 1
}
mapfile -t targets < <(awk '/^Fuzz/ { names[n++] = $1 } /^ok/ { for (i = 0; i < n; i++) print $2, names[i]; n = 0 }' <<<"$listing")
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
