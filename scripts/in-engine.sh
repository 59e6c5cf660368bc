#!/usr/bin/env bash
# Runs a command in a network namespace of its own, beside a private Docker
# engine that it finds in DOCKER_HOST. Nothing of either is left.
#
#   scripts/in-engine.sh FOLDER CMD...
#
# FOLDER holds the engine's programs, as in an unpacked package: dockerd,
# containerd and its shims below usr/bin and usr/sbin, or right in it. What is
# missing there is taken from PATH, runc for instance. It is in IN_ENGINE_FOLDER
# for the command, and its programs come first in PATH.
set -euo pipefail
[ "$(id -u)" = 0 ] || { echo "in-engine: must run as root" >&2; exit 1; }
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(cd "$1" && pwd)
shift
# The command must see the namespace's /proc/sys and the machine's cgroups.
[ "${IN_ENGINE_NETNS:-}" ] || exec env IN_ENGINE_NETNS=1 unshare --net "$0" "$bin" "$@"

dir=$(mktemp -d /tmp/wardyn-engine-XXXXXX)
engine=
finish() {
  if [ -n "$engine" ]; then
    kill "$engine" 2>/dev/null || true
    wait "$engine" 2>/dev/null || true
  fi
  # An engine may mount its folder on itself, and its last containers' parts go in their own time.
  for _ in $(seq 40); do
    awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r | xargs -r umount 2>/dev/null || true
    rm -rf "$dir" 2>/dev/null && return
    sleep 0.25
  done
  rm -rf "$dir"
}
trap finish EXIT

ip link set lo up
# A host has an address beyond loopback; two ends of a cable are enough.
ip link add host0 type veth peer name host1
ip addr add 192.0.2.1/24 dev host0
ip link set host0 up
ip link set host1 up

runsc=$(docker info --format '{{range $k, $v := .Runtimes}}{{if eq $k "runsc"}}{{$v.Path}}{{end}}{{end}}' 2>/dev/null || true)
if [ -n "$runsc" ]; then
  printf '{"runtimes":{"runsc":{"path":"%s","runtimeArgs":["--overlay2=none"]}}}' "$runsc" >"$dir/daemon.json"
else
  echo '{}' >"$dir/daemon.json"
fi
name=wardyn-test-$$
export IN_ENGINE_FOLDER=$bin PATH=$bin/usr/sbin:$bin/usr/bin:$bin:$PATH
(
  exec dockerd --config-file "$dir/daemon.json" --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" \
    -H "unix://$dir/sock" --containerd-namespace "$name" --containerd-plugins-namespace "$name-plugins"
) >"$dir/log" 2>&1 &
engine=$!
export DOCKER_HOST=unix://$dir/sock
for _ in $(seq 240); do
  timeout 5 docker version >/dev/null 2>&1 && break
  kill -0 "$engine" 2>/dev/null || { tail -n 20 "$dir/log" >&2; exit 1; }
  sleep 0.25
done
docker version --format 'engine {{.Server.Version}}'
"$@"
