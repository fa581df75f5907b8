"""`worker_process_setup_hook`: user code that a worker runs before it takes any work."""

from __future__ import annotations

import base64
import importlib
import sys
import traceback
from typing import Any

from cluster_common.worker_start import PICKLED_HOOK, SETUP_FAILED_STATUS
from driver_client.objects import serialization


def run_setup_hook(hook: str) -> None:
    """Runs it; the process ends with a status of its own when it raises."""
    try:
        _load(hook)()
    except Exception:  # noqa: BLE001 - user code; the status and the traceback tell the agent
        traceback.print_exc()
        sys.stderr.flush()
        raise SystemExit(SETUP_FAILED_STATUS) from None


def _load(hook: str) -> Any:
    if hook.startswith(PICKLED_HOOK):
        return serialization.loads(base64.b64decode(hook.removeprefix(PICKLED_HOOK)))
    module, _, function = hook.rpartition(".")
    return getattr(importlib.import_module(module), function)
