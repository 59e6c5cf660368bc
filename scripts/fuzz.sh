#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(mktemp)
trap 'rm -f "$out"' EXIT

fuzz() { go test -run '^$' -fuzz "^$2\$" -fuzztime "${FUZZTIME:-15s}" "$1" </dev/null 2>&1 | tee "$out"; }

# Go's fuzzer may take the end of its time for a failure when a worker is slow
# just then. A finding comes with its input; without one it is run again, once.
late() { grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input' "$out"; }

git grep -lE '^func Fuzz' -- '*_test.go' | while read -r file; do
  pkg=./$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9_]+' "$file" | cut -d' ' -f2 | while read -r target; do
    echo "==> $pkg $target"
    if ! fuzz "$pkg" "$target"; then
      late || exit 1
      fuzz "$pkg" "$target" || exit 1
    fi
  done
done
