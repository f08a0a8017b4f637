#!/usr/bin/env bash
# Builds what the browser test needs and runs it: Chromium from Debian's packages
# (or $CHROMIUM), playwright-core and axe-core from the npm registry.
set -euo pipefail
cd "$(dirname "$0")/../.."

: "${CHROMIUM:=/usr/bin/chromium}"
export CHROMIUM
if [[ ! -x $CHROMIUM ]]; then
	as_root=()
	((EUID == 0)) || as_root=(sudo -n)
	echo "ui: installing Chromium"
	mkdir -p build/ui
	if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends chromium fonts-dejavu-core; } >build/ui/apt.log 2>&1; then
		tail -n 20 build/ui/apt.log >&2
		exit 1
	fi
fi
if ! command -v node >/dev/null; then
	echo "ui: node is not installed" >&2
	exit 1
fi
if [[ ! -d tests/ui/node_modules/playwright-core || tests/ui/package-lock.json -nt tests/ui/node_modules/.package-lock.json ]]; then
	(cd tests/ui && npm ci --no-audit --no-fund)
fi
exec go run ./tests/ui "$@"
