#!/usr/bin/env bash
# Installs the Debian packages that building and testing need and that are
# missing; says what it installs, and says plainly when it cannot.
set -euo pipefail

packages=(gcc libc6-dev pkg-config libfabric-dev librdmacm-dev libibverbs-dev iproute2 jq curl)

# Without dpkg only the result counts: the compiler, the tools, the libraries.
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	missing=()
	for tool in gcc pkg-config ip jq curl; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	if command -v pkg-config >/dev/null; then
		for library in libfabric librdmacm libibverbs; do
			pkg-config --exists "$library" || missing+=("$library (headers)")
		done
	fi
	if ((${#missing[@]})); then
		echo "deps: this is not a Debian-like system; please install: ${missing[*]}" >&2
		exit 1
	fi
	exit 0
fi

missing=()
for package in "${packages[@]}"; do
	status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
	[[ $status == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root=()
if ((EUID != 0)); then
	if ! command -v sudo >/dev/null || ! sudo -n true 2>/dev/null; then
		echo "deps: missing Debian packages: ${missing[*]}" >&2
		echo "deps: neither root nor password-less sudo; please run: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	as_root=(sudo -n)
fi

echo "deps: installing Debian packages: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -o DPkg::Lock::Timeout=300 "$@" >"$log" 2>&1
}
if ! install update || ! install install -y --no-install-recommends "${missing[@]}"; then
	echo "deps: apt-get failed:" >&2
	tail -n 20 "$log" >&2
	exit 1
fi
echo "deps: done"
