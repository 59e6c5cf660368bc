#!/usr/bin/env bash
# Makes the demo's image from busybox-static, without a registry:
#
#   scripts/image.sh NAME    build it
#   scripts/image.sh -d NAME remove it
set -euo pipefail
[ $# -gt 0 ] && [ "$1" != -d ] || [ $# -gt 1 ] || { echo "usage: scripts/image.sh [-d] NAME" >&2; exit 2; }
if [ "$1" = -d ]; then
  docker rmi "$2" >/dev/null 2>&1 || true
  exit 0
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/bin "$dir"/etc "$dir"/tmp "$dir"/root "$dir"/home/agent
chmod 1777 "$dir"/tmp
chown 1000:1000 "$dir"/home/agent
cp /bin/busybox "$dir"/bin/busybox
for applet in $(/bin/busybox --list); do
  [ "$applet" = busybox ] || ln -s busybox "$dir/bin/$applet"
done
printf 'root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n' >"$dir"/etc/passwd
printf 'root:x:0:\nagent:x:1000:\n' >"$dir"/etc/group
tar -C "$dir" -c . | docker import -c 'CMD ["/bin/sh"]' -c 'ENV PATH=/bin' - "$1" >/dev/null
