#!/bin/sh
# Regenerates the Go code of the four .proto files. Needs protoc (Debian package
# protobuf-compiler) on PATH. protoc-gen-go is built from the protobuf version in go.mod,
# so generated code and runtime cannot drift apart; protoc-gen-go-grpc is pinned here.
set -eu

cd "$(dirname "$0")"
grpc_plugin_version=v1.6.2
module=github.com/wardyn/nomad-driver-wardyn/plugin/internal/wire

bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install google.golang.org/protobuf/cmd/protoc-gen-go
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$grpc_plugin_version

PATH=$bin:$PATH protoc -I proto \
	--go_out=. --go_opt=module=$module \
	--go-grpc_out=. --go-grpc_opt=module=$module \
	proto/wardyn/*.proto
