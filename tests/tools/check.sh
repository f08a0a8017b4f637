#!/usr/bin/env bash
# Formatting, go vet, and the linters that are installed.
set -euo pipefail

: "${GO:=go}"

# Not below build: an image test leaves whole systems there.
unformatted=$(find . \( -path ./build -o -name node_modules \) -prune -o -name '*.go' -print0 | xargs -0 "$("$GO" env GOROOT)/bin/gofmt" -l)
if [[ -n $unformatted ]]; then
	echo "check: gofmt would change:" >&2
	echo "$unformatted" >&2
	exit 1
fi
"$GO" vet ./...
if [[ ${1:-} == quick ]]; then
	exit 0
fi
if command -v golangci-lint >/dev/null; then
	golangci-lint run
elif command -v staticcheck >/dev/null; then
	staticcheck ./...
else
	echo "check: neither golangci-lint nor staticcheck is installed; gofmt and go vet only"
fi
