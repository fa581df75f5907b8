#!/usr/bin/env bash
# The compose test: starts an engine if none answers (and ends it again), builds the image, runs tests/compose.
set -euo pipefail
cd "$(dirname "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")")"
if ! docker info >/dev/null 2>&1 || ! docker compose version >/dev/null 2>&1; then
  trap 'bash deploy/engine-down.sh' EXIT
  bash deploy/engine-up.sh
fi
BASE_IMAGE=$(bash deploy/base-image.sh)
export BASE_IMAGE
.venv/bin/python -m pytest -m compose tests/compose "$@"
