#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME.
set -euo pipefail
cd "$(dirname "$0")/.."
git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
  pkg=./$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2 | while read -r target; do
    echo "==> $pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-15s}" "$pkg" </dev/null
  done
done
