"""Functions and classes this process was sent: unpickled once per content hash."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client import source_files
from driver_client.shell.task_events import ACTOR_TASK, QUIET, TASK


class LocalFunction:
    """One callable as a caller's stream names it."""

    __slots__ = (
        "backpressure",
        "body_hash",
        "call_name",
        "capture_child_tasks",
        "concurrency_group",
        "dynamic",
        "event_kind",
        "full_name",
        "max_calls",
        "method_name",
        "num_returns",
        "placement_group_id",
        "resolved",
        "streaming",
    )

    def __init__(self, definition: pb.FunctionDefinition) -> None:
        self.body_hash = definition.hash
        self.method_name = definition.method_name
        self.call_name = definition.call_name or definition.name
        self.full_name = ""
        """With module and class, known once it was loaded."""
        self.num_returns = definition.num_returns
        self.concurrency_group = definition.concurrency_group
        self.placement_group_id = definition.placement_group_id
        self.capture_child_tasks = definition.capture_child_tasks
        self.streaming = definition.streaming
        self.dynamic = definition.dynamic_returns
        self.backpressure = definition.generator_backpressure
        self.max_calls = definition.max_calls
        self.resolved: Callable[..., Any] | None = None
        self.event_kind = ACTOR_TASK if definition.method_name else TASK
        if definition.without_events:
            self.event_kind = QUIET


class FunctionStore:
    """Pickled bodies by hash and what they became."""

    def __init__(self) -> None:
        self._pickled: dict[bytes, tuple[bytes, str]] = {}
        self._loaded: dict[bytes, Any] = {}

    def add(self, definition: pb.FunctionDefinition) -> None:
        """Keeps a body until it is first called."""
        if definition.pickled and definition.hash not in self._loaded:
            self._pickled[definition.hash] = (definition.pickled, definition.source_file)

    def load(self, body_hash: bytes) -> Any:
        """The function or class. On the thread that runs user code: unpickling may import modules.

        Raises:
            KeyError: the body never came.
        """
        loaded = self._loaded.get(body_hash)
        if loaded is None:
            pickled, file = self._pickled[body_hash]
            loaded = pickle.loads(pickled)
            source_files.restore(loaded, file)
            self._loaded[body_hash] = loaded
            self._pickled.pop(body_hash, None)
        return loaded


def extend_module_path(paths: Iterable[str]) -> None:
    """Adds the driver's module search path, as far as the folders exist here, after our own."""
    known = set(sys.path)
    for path in paths:
        if path not in known and _is_folder(path):
            sys.path.append(path)
            known.add(path)


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):  # no file can have this name
        return False
