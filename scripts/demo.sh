#!/usr/bin/env bash
# One job file in a real sandbox, twice: under runc and under gVisor. Shows an
# allowed request, an explained denial, an exec, and the decision log.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh demo

image=wardyn-demo/busybox:$$
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill -- "-$server" 2>/dev/null || true
  scripts/image.sh -d "$image"
  rm -rf "$work"
}
trap cleanup EXIT

ours() { docker ps -aq --filter label=wardyn.managed; docker network ls -q --filter label=wardyn.managed; }

scripts/image.sh "$image"
ours | sort >"$work/before"

# A range that nobody has, so that two demos, or a demo beside an agent, do
# not meet: neither routed on this machine nor listened on.
taken() { ip route | grep -q "^10\.214\.$1\.0/22" || ss -Htln "src 10.214.$1.1:8080" | grep -q .; }
net=$(($$ % 24 * 4 + 128))
for _ in $(seq 24); do
  taken "$net" || break
  net=$(((net - 124) % 96 + 128))
done

# What the sandbox may reach: a file server on the gateway address of the
# egress network, which exists as soon as the driver has made that network.
# Its own process group (set -m): the loop and the server end together.
mkdir "$work/www"
echo 'hello from the artifact host' >"$work/www/greeting.txt"
set -m
(until busybox httpd -f -p "10.214.$net.1:8080" -h "$work/www"; do sleep 0.1; done) >/dev/null 2>&1 &
server=$!
set +m

cat >"$work/plugin.hcl" <<HCL
egress_subnet_pool = "10.214.$net.0/22"

private_hosts {
  "artifacts.example.internal" = ["10.214.$net.1"]
}
HCL

# The second time the decision log is printed as it stands in the file.
for class in CC1 CC2; do
  raw=
  [ "$class" = CC1 ] || raw=-json
  printf '\n===== %s: bin/nomad-driver-wardyn run jobs/hello.nomad.hcl =====\n' "$class"
  code=0
  bin/nomad-driver-wardyn run -plugin-config "$work/plugin.hcl" -decisions $raw \
    -var "image=$image" -var "class=$class" -var linger=60 -exec hello jobs/hello.nomad.hcl -- \
    sh -c 'until [ -e /local/done ]; do sleep 0.1; done; echo "exec: in the same sandbox, as $(id -un)"; exit 3' || code=$?
  echo "exec's exit code, passed through: $code"
  [ "$code" = 3 ] || { echo "demo: expected 3" >&2; exit 1; }
done

printf '\nContainers and networks left on the engine: '
ours | sort | comm -13 "$work/before" - | wc -l
