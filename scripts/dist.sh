#!/usr/bin/env bash
# A release archive and its checksum: the one file an operator installs.
set -euo pipefail
cd "$(dirname "$0")/.."
rm -rf dist && mkdir -p dist
name=nomad-driver-wardyn_${VERSION}_linux_$(go env GOARCH)
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime='1970-01-01 00:00Z' \
  -czf "dist/$name.tar.gz" -C bin nomad-driver-wardyn -C .. LICENSE README.md CHANGELOG.md
(cd dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
ls -l dist
