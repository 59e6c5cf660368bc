#!/usr/bin/env bash
# Everything that can run here. The engine and gVisor are there (make setup);
# Nomad is not ours to install: without one its tests skip and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

flags=(-timeout "${TIMEOUT:-20m}")
if [ -n "${RACE:-}" ]; then
  flags+=(-race)
  export CGO_ENABLED=1
fi
export WARDYN_TEST_REQUIRE=docker,runsc
export WARDYN_TEST_BINARY=$PWD/bin/nomad-driver-wardyn

# What other installations have on this machine is theirs.
before=$(mktemp)
trap 'rm -f "$before"' EXIT
go test -count=1 ./e2e/leaks -args -remember "$before"

packages=$(go list ./... | grep -v '/e2e')
# Most of these wait for an engine, a clock or a peer: more of them than cores.
go test -p 4 "${flags[@]}" $packages
# One package at a time from here: whole jobs on one small machine, and last the
# count of what all of them left. What runs side by side in one waits mostly.
e2e() {
  go test -p 1 -parallel 4 -count=1 -v "${flags[@]}" "$@" 2>&1 | grep -vE '^=== (RUN|PAUSE|CONT)|^ +--- PASS'
}
e2e $(go list ./e2e/... | grep -v -e /leaks -e /bench)
e2e ./e2e/leaks -args -baseline "$before"
