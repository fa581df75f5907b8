#!/usr/bin/env bash
# Ends the engine that engine-up.sh started, by its recorded pid, and nothing else.
set -euo pipefail
record=/run/shoal-engine.pid
[ -e "$record" ] || exit 0
pid=$(cat "$record")
if [ "$(ps -o comm= -p "$pid" 2>/dev/null)" = dockerd ]; then
  kill "$pid"
  for _ in $(seq 1 150); do
    case "$(ps -o state= -p "$pid" 2>/dev/null)" in '' | Z*) break ;; esac
    sleep 0.2
  done
fi
rm -f "$record"
# The engine closes forwarding for everybody and leaves its bridge.
iptables -P FORWARD ACCEPT 2>/dev/null || true
ip link del docker0 2>/dev/null || true
