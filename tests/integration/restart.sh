#!/usr/bin/env bash
# Restart survival with readers on the mirrors: RESTARTS SIGKILLs and as many
# SIGTERMs of the destination agent (default 20), see tests/restart. SEED repeats
# the random moments of a run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
exec "${GO:-go}" run ./tests/restart -restarts "${RESTARTS:-20}" ${SEED:+-seed "$SEED"}
