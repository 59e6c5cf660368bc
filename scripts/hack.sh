#!/usr/bin/env bash
# A development agent with the plugin, in the foreground. Ctrl-C ends it, and
# takes away what the plugin had on the engine.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v nomad >/dev/null || { echo "hack: needs a nomad on PATH" >&2; exit 1; }
dir=$(mktemp -d)
cleanup() {
  [ ! -d "$dir/wardyn" ] || bin/nomad-driver-wardyn purge -plugin-config "$dir/agent.hcl" -yes || true
  rm -rf "$dir"
}
trap cleanup EXIT
trap : INT # the agent has it as well, and is waited for
mkdir "$dir/plugins"
cp bin/nomad-driver-wardyn "$dir/plugins/"
cat >"$dir/agent.hcl" <<HCL
plugin_dir = "$dir/plugins"
plugin "nomad-driver-wardyn" {
  config {
    data_dir = "$dir/wardyn"
  }
}
HCL
nomad agent -dev -config "$dir/agent.hcl"
