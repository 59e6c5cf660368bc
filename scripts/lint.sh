#!/usr/bin/env bash
# gofmt, vet, staticcheck and the architecture test.
set -euo pipefail
cd "$(dirname "$0")/.."
staticcheck_version=v0.8.2

unformatted=$(git ls-files '*.go' | grep -v '\.pb\.go$' | xargs gofmt -l)
[ -z "$unformatted" ] || { printf 'gofmt would change:\n%s\n' "$unformatted" >&2; exit 1; }
go vet ./...
go run honnef.co/go/tools/cmd/staticcheck@$staticcheck_version ./...
go test ./internal/archtest
bash -n scripts/*.sh
