#!/usr/bin/env bash
# One job file in a real sandbox, twice: under runc and under gVisor. Shows an
# allowed request, an explained denial, an exec, and the decision log.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh test

image=wardyn-demo/busybox:1
work=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  scripts/image.sh -d "$image"
  rm -rf "$work"
}
trap cleanup EXIT

scripts/image.sh "$image"

# What the sandbox may reach: a file server on the gateway address of the
# egress network, which exists as soon as the driver has made that network.
mkdir "$work/www"
echo 'hello from the artifact host' >"$work/www/greeting.txt"
(until busybox httpd -f -p 10.214.252.1:8080 -h "$work/www" 2>/dev/null; do sleep 0.1; done) &
server=$!

cat >"$work/plugin.hcl" <<'HCL'
egress_subnet_pool = "10.214.252.0/22"

private_hosts {
  "artifacts.example.internal" = ["10.214.252.1"]
}
HCL

for class in CC1 CC2; do
  printf '\n===== %s: bin/nomad-driver-wardyn run jobs/hello.nomad.hcl =====\n' "$class"
  code=0
  bin/nomad-driver-wardyn run -plugin-config "$work/plugin.hcl" -decisions \
    -var "image=$image" -var "class=$class" -var linger=60 -exec hello jobs/hello.nomad.hcl -- \
    sh -c 'until [ -e /local/done ]; do sleep 0.1; done; echo "exec: in the same sandbox, as $(id -un)"; exit 3' || code=$?
  echo "exec's exit code, passed through: $code"
  [ "$code" = 3 ] || { echo "demo: expected 3" >&2; exit 1; }
done

printf '\nLeft on the engine: '
docker ps -aq --filter label=wardyn.managed | wc -l
