#!/usr/bin/env bash
# Prints the base image to build on: BASE_IMAGE if set, else python:3.11-slim if the engine has it or
# can pull it, else a stand-in made of this Debian release's own Python (root only).
set -euo pipefail
wanted=python:3.11-slim
rootfs=local/shoal-python-rootfs
stand_in=local/shoal-python:debian

if [ -n "${BASE_IMAGE:-}" ]; then
  echo "$BASE_IMAGE"
  exit
fi
if docker image inspect "$wanted" >/dev/null 2>&1 || timeout 60 docker pull -q "$wanted" >/dev/null 2>&1; then
  echo "$wanted"
  exit
fi
echo "base-image: $wanted cannot be pulled here, using Debian's own Python" >&2
command -v mmdebstrap >/dev/null || {
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null 2>&1
}
if ! docker image inspect "$rootfs" >/dev/null 2>&1; then
  mmdebstrap --quiet --mode=root --variant=minbase --include=python3,python3-pip,python3-venv \
    --dpkgopt=force-unsafe-io \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --customize-hook='rm -f "$1"/usr/lib/python3.*/EXTERNALLY-MANAGED' \
    --customize-hook='ln -s /usr/bin/python3 "$1"/usr/local/bin/python' \
    --customize-hook='mkdir -p "$1"/etc/ssl/certs' \
    bookworm - | docker import -c 'ENV LANG=C.UTF-8' -c 'CMD ["python3"]' - "$rootfs" >/dev/null
fi
# The machine's certificates are laid on top each time: pip in a build trusts what this machine does.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
cp /etc/ssl/certs/ca-certificates.crt "$context/"
printf '[global]\ncert = /etc/ssl/certs/ca-certificates.crt\ntimeout = 180\nroot-user-action = ignore\n' >"$context/pip.conf"
cat >"$context/Dockerfile" <<TEXT
FROM $rootfs
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY pip.conf /etc/pip.conf
TEXT
docker build -q -t "$stand_in" "$context" >/dev/null 2>"$context/log" || { cat "$context/log" >&2; exit 1; }
echo "$stand_in"
