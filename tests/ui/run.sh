#!/usr/bin/env bash
# Installs what the browser test needs and runs it: Chromium (or $CHROMIUM), node and
# npm from Debian's packages, playwright-core and axe-core from the npm registry.
set -euo pipefail
cd "$(dirname "$0")/../.."

: "${CHROMIUM:=/usr/bin/chromium}"
export CHROMIUM
mkdir -p build/ui

not_run() {
	echo "ui: not run: $1" >&2
	exit 69
}

packages=()
[[ -x $CHROMIUM ]] || packages+=(chromium fonts-dejavu-core)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
if ((${#packages[@]})); then
	as_root=()
	((EUID == 0)) || as_root=(sudo -n)
	apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive timeout 300 apt-get -o DPkg::Lock::Timeout=300 "$@" >>build/ui/apt.log 2>&1; }
	echo "ui: installing ${packages[*]}"
	: >build/ui/apt.log
	{ apt update && apt install -y --no-install-recommends "${packages[@]}"; } ||
		not_run "Debian's ${packages[*]} cannot be installed: $(tail -n 1 build/ui/apt.log)"
fi
if [[ ! -d tests/ui/node_modules/playwright-core || tests/ui/package-lock.json -nt tests/ui/node_modules/.package-lock.json ]]; then
	(cd tests/ui && timeout 180 npm ci --no-audit --no-fund) >build/ui/npm.log 2>&1 ||
		not_run "npm ci in tests/ui: $(grep -v '^$' build/ui/npm.log | tail -n 1)"
fi
exec "${GO:-go}" run ./tests/ui "$@"
