#!/usr/bin/env bash
# A development agent with the plugin, in the foreground.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v nomad >/dev/null || { echo "hack: needs a nomad on PATH" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
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
