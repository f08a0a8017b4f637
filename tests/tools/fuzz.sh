#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, two at a time, each in a
# memory limit, prints a table and fails when one finds something, hangs or outgrows
# its memory. Usage: fuzz.sh [time [pattern]]; FUZZMEMORY is the limit in MiB.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${GO:=go}"
export GO
exec nice "$GO" run ./tests/fuzz -time "${1:-60s}" -memory "${FUZZMEMORY:-1024}" -only "${2:-}"
