#!/usr/bin/env bash
# Brings a bare Debian or Ubuntu machine to where demo and tests run: an
# engine that answers, gVisor registered with it, and the few packages tests
# use. Safe to run again; it changes nothing that is already there.
#
#   scripts/setup.sh engine    Docker engine installed, started, answering
#   scripts/setup.sh runsc     gVisor built once and registered as "runsc"
#   scripts/setup.sh demo      busybox for the demo's image, and ip
#   scripts/setup.sh test      compiler, busybox and the programs that tests drive
set -euo pipefail
cd "$(dirname "$0")/.."
cache=$PWD/.cache
mkdir -p "$cache"

say() { printf '==> %s\n' "$*"; }

need_root() {
  [ "$(id -u)" = 0 ] || { echo "setup: must run as root to $1" >&2; exit 1; }
}

try_apt_install() {
  need_root "install $*"
  say "installing $*"
  export DEBIAN_FRONTEND=noninteractive
  if ! apt-get install -y -qq --no-install-recommends "$@" >"$cache/apt.log" 2>&1; then
    apt-get update -qq >>"$cache/apt.log" 2>&1 || true
    apt-get install -y -qq --no-install-recommends "$@" >>"$cache/apt.log" 2>&1
  fi
}

apt_install() { try_apt_install "$@" || { tail -n 20 "$cache/apt.log" >&2; exit 1; }; }

answers() { timeout 10 docker version >/dev/null 2>&1; }

engine() {
  if ! command -v dockerd >/dev/null && ! answers; then
    apt_install docker.io iptables ca-certificates
  fi
  command -v iptables >/dev/null || apt_install iptables
  answers && return
  need_root "start the Docker engine"
  say "starting the Docker engine"
  if [ -d /run/systemd/system ]; then
    systemctl start docker
  else
    # One that was killed leaves its pid behind, and the number may be another's by now.
    pgrep -x dockerd >/dev/null || rm -f /var/run/docker.pid /var/run/docker/containerd/containerd.pid
    # The engine outlives this script and must hold none of its streams.
    setsid nohup dockerd >"$cache/dockerd.log" 2>&1 </dev/null &
  fi
  for _ in $(seq 120); do answers && return; sleep 0.5; done
  echo "setup: the Docker engine does not answer; its log:" >&2
  tail -n 20 "$cache/dockerd.log" >&2 2>/dev/null || true
  exit 1
}

# gVisor at this revision must be built with Go 1.23: a sentry built with a
# newer Go reads the runtime's memory at the wrong offset and dies under load.
gvisor_version=v0.0.0-20250205023644-9414b50a5633
gvisor_go=go1.23.12

registered() { docker info --format '{{range $k, $v := .Runtimes}}{{$k}} {{end}}' | grep -qw runsc; }

# The engine at the usual socket takes its configuration up anew; there may be
# others on this machine, which are none of ours.
reload() {
  local pid
  pid=$(cat /var/run/docker.pid 2>/dev/null) || pid=
  if [ -z "$pid" ] || [ "$(cat "/proc/$pid/comm" 2>/dev/null)" != dockerd ]; then
    echo "setup: /var/run/docker.pid names no running engine; reload yours, so that it takes up /etc/docker/daemon.json" >&2
    exit 1
  fi
  kill -HUP "$pid"
}

runsc() {
  engine
  registered && return
  local bin=/usr/local/lib/wardyn/runsc-$gvisor_version
  if [ ! -x "$bin" ]; then
    need_root "install runsc"
    say "building gVisor's runsc (about a minute, once)"
    local src=$cache/gvisor
    rm -rf "$src" && mkdir -p "$src"
    (
      cd "$src"
      export GOTOOLCHAIN=$gvisor_go CGO_ENABLED=0 GOFLAGS=-mod=mod GOWORK=off
      if [ -x /usr/lib/go-1.23/bin/go ]; then
        export PATH=/usr/lib/go-1.23/bin:$PATH GOTOOLCHAIN=local
      fi
      printf 'module runsc\n\ngo 1.23\n' >go.mod
      go get gvisor.dev/gvisor/runsc@$gvisor_version
      go build -trimpath -ldflags '-s -w' -o runsc gvisor.dev/gvisor/runsc
    ) >"$cache/runsc.log" 2>&1 || { tail -n 20 "$cache/runsc.log" >&2; exit 1; }
    install -D -m 0755 "$src/runsc" "$bin"
    rm -rf "$src"
  fi
  need_root "register runsc"
  say "registering runsc with the engine"
  go run ./scripts/addruntime /etc/docker/daemon.json runsc "$bin" --overlay2=none
  reload
  for _ in $(seq 20); do
    registered && return
    sleep 0.5
  done
  echo "setup: the engine did not take up runsc from /etc/docker/daemon.json" >&2
  exit 1
}

demo() {
  local want=()
  [ -x /bin/busybox ] || [ -x /usr/bin/busybox ] && /bin/busybox --list >/dev/null 2>&1 || want+=(busybox-static)
  command -v ip >/dev/null || want+=(iproute2)
  [ ${#want[@]} = 0 ] || apt_install "${want[@]}"
}

tests() {
  local want=() more=()
  command -v gcc >/dev/null || want+=(gcc libc6-dev)
  [ -x /bin/busybox ] || [ -x /usr/bin/busybox ] && /bin/busybox --list >/dev/null 2>&1 || want+=(busybox-static)
  command -v git >/dev/null || want+=(git)
  command -v ip >/dev/null || want+=(iproute2)
  [ ${#want[@]} = 0 ] || apt_install "${want[@]}"

  # Real programs that single tests drive; without one its tests skip and say so.
  [ -x /usr/bin/curl ] || more+=(curl)
  [ -x /usr/bin/wget ] || more+=(wget)
  [ -x /usr/bin/node ] || more+=(nodejs)
  [ -x /usr/bin/python3 ] || more+=(python3)
  compgen -G '/usr/share/python-wheels/pip-*.whl' >/dev/null || more+=(python3-pip-whl)
  [ -d /usr/lib/python3/dist-packages/httpx ] || more+=(python3-httpx)
  [ -x /usr/bin/ruby ] || more+=(ruby)
  if ! command -v docker-registry >/dev/null; then
    more+=(docker-registry)
    # Tests start registries of their own: the package's service stays off.
    trap 'systemctl disable -q --now docker-registry 2>/dev/null || true' EXIT
  fi
  [ ${#more[@]} = 0 ] || try_apt_install "${more[@]}" || say "could not install ${more[*]}: tests that need them skip"
}

for step in "$@"; do
  case $step in
    engine) engine ;;
    runsc) runsc ;;
    demo) demo ;;
    test) tests ;;
    *) echo "setup: unknown step $step" >&2; exit 2 ;;
  esac
done
