#!/usr/bin/env bash
# A container engine with compose on a bare Debian machine, from Debian packages. Needs root. Safe to
# run again: what is there already is used. `engine-down.sh` ends what was started here.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
log=${TMPDIR:-/tmp}/shoal-engine.log
record=/run/shoal-engine.pid
plugins=/usr/local/lib/docker/cli-plugins

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
  echo "engine-up: no container engine answers, and only root on Debian can install one here" >&2
  exit 1
fi

install_missing() {
  local name missing=()
  for name in "$@"; do
    dpkg -s "$name" >/dev/null 2>&1 || missing+=("$name")
  done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
}

# Debian 12 has no compose v2; the package of the next release is one static program, so it is taken
# out of its .deb without installing anything else from there.
compose_from_next_release() {
  local work mirror options
  work=$(mktemp -d)
  mkdir -p "$work/etc" "$work/lists/partial" "$work/cache/archives/partial" "$plugins"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' | grep -m1 '/debian/\?$')
  cat >"$work/etc/next.sources" <<TEXT
Types: deb
URIs: $mirror
Suites: trixie
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
TEXT
  options=(-o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$work/etc"
    -o "Dir::State::lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" update -qq
  (cd "$work" && apt-get "${options[@]}" download -qq docker-compose && dpkg-deb -x docker-compose_*.deb out)
  install -m 755 "$work/out/usr/libexec/docker/cli-plugins/docker-compose" "$plugins/docker-compose"
  rm -rf "$work"
}

# An engine that was killed leaves pid files; if the pid is a zombie's or somebody else's, the next
# engine takes the old one for alive and refuses to start.
forget_dead() {
  local file=$1 program=$2 found
  found=$(ps -o comm=,state= -p "$(cat "$file" 2>/dev/null || echo 0)" 2>/dev/null || true)
  case $found in
    "$program"*Z*) rm -f "$file" ;;
    "$program"*) ;;
    *) rm -f "$file" ;;
  esac
}

packages=(docker.io iptables procps ca-certificates)
# shellcheck disable=SC1091
. /etc/os-release
[ "${VERSION_ID%%.*}" -lt 13 ] || packages+=(docker-cli docker-compose)
install_missing "${packages[@]}"
docker compose version >/dev/null 2>&1 || compose_from_next_release

if ! docker info >/dev/null 2>&1; then
  forget_dead /var/run/docker.pid dockerd
  forget_dead /var/run/docker/containerd/containerd.pid containerd
  setsid dockerd >"$log" 2>&1 </dev/null &
  for _ in $(seq 1 240); do
    docker info >/dev/null 2>&1 && break
    sleep 0.25
  done
  docker info >/dev/null 2>&1 || { echo "engine-up: the engine did not start" >&2; tail -40 "$log" >&2; exit 1; }
  cat /var/run/docker.pid >"$record"
fi
