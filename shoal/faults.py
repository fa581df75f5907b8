"""Faults a test orders from its cluster: `Cluster.faults` (CONTRACT: Test cluster).

Every process of the cluster was started with this folder and obeys what is written here. Faults
outlive the GCS and the agents they are about; `clear` and `heal` let go at once what they held.
"""

from __future__ import annotations

import mmap
import re
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster_api.v1 import (
    agent_pb2,
    autoscaler_pb2,
    core_worker_pb2,
    gcs_pb2,
    node_session_pb2,
    placement_groups_pb2,
)
from cluster_common.transport import faults as wire

if TYPE_CHECKING:
    from shoal.cluster_utils import ClusterNode

KINDS = (
    "prepare",
    "commit",
    "cancel",
    "return_bundles",
    "sync",
    "demand",
    "view",
    "ping",
    "drain",
    "lease_request",
    "lease_cancel",
    "actor_create",
)
"""Items of sessions; any `Service/Method` is a kind too."""

_CANNOT_FAIL = ("sync", "demand", "view", "ping", "lease_cancel")
_ONE_WAY = ("sync", "demand", "view", "lease_cancel")
_SERVICES = (
    agent_pb2,
    autoscaler_pb2,
    core_worker_pb2,
    gcs_pb2,
    node_session_pb2,
    placement_groups_pb2,
)
_HEX = re.compile(r"[0-9a-f]+")
_LOOK_AGAIN_S = 0.005


class Faults:
    """Orders faults. Each method returns when the processes will obey from their next message on.

    Args:
        directory: the folder of the cluster; made here.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._rules: dict[int, wire.Rule] = {}
        self._cut: dict[str, None] = {}
        self._last_id = 0
        self._generation = 0
        path = directory / "generation"
        path.write_bytes(bytes(wire.GENERATION_BYTES))
        with path.open("r+b") as file:
            self._shown = mmap.mmap(file.fileno(), wire.GENERATION_BYTES)
        self._write()

    def delay(
        self,
        kind: str,
        node: ClusterNode | str,
        seconds: float,
        answer: bool = False,  # noqa: FBT001, FBT002 - the contract's signature
    ) -> None:
        """Holds messages of `kind` at `node` for so long (0: counts them only).

        Args:
            kind: one of `KINDS`, or `Service/Method`.
            node: a node, its id, or "*".
            seconds: `float("inf")` for ever, which is until `clear`.
            answer: holds the answers instead of the requests.

        Raises:
            ValueError: unknown kind or node, a negative time, or a kind without answers.
        """
        if not seconds >= 0:
            raise ValueError(f"a delay of {seconds!r} s must be at least 0")
        if answer and kind in _ONE_WAY:
            raise ValueError(f"{kind!r} has no answer that could be delayed")
        # JSON has no infinity.
        self._add("delay", kind, node, seconds=min(seconds, 1e9), answer=answer)

    def fail(self, kind: str, node: ClusterNode | str, times: int = 1) -> None:
        """Makes the receiver answer "failed" to the next `times` messages, without acting.

        Raises:
            ValueError: unknown kind or node, or a kind that has no such answer.
        """
        if kind in _CANNOT_FAIL:
            raise ValueError(f"{kind!r} has no answer that says it failed; drop or delay it")
        if times < 1:
            raise ValueError(f"times is {times}, it must be at least 1")
        self._add("fail", kind, node, times=times)

    def drop(self, kind: str, node: ClusterNode | str) -> None:
        """Swallows messages of `kind` until `clear`.

        Raises:
            ValueError: unknown kind or node.
        """
        self._add("drop", kind, node)

    def partition(self, node: ClusterNode | str) -> None:
        """Cuts everything between a node's processes and all others, silently and both ways.

        Raises:
            ValueError: unknown node, or "*".
        """
        identity = _node_name(node)
        if identity == wire.ANY_NODE:
            raise ValueError("a partition needs one node; the others are the other side")
        self._cut[identity] = None
        self._write()

    def heal(self, node: ClusterNode | str) -> None:
        """Ends a partition; what was held arrives now. Nothing happens when there is none.

        Raises:
            ValueError: unknown node.
        """
        identity = _node_name(node)
        for each in list(self._cut) if identity == wire.ANY_NODE else [identity]:
            self._cut.pop(each, None)
        self._write()

    def clear(self) -> None:
        """Ends all faults, partitions too; what was held arrives now."""
        self._rules.clear()
        self._cut.clear()
        self._write()

    def met(self, kind: str, node: ClusterNode | str = wire.ANY_NODE) -> int:
        """How many messages of `kind` met a fault at `node`: one that was not cleared since."""
        identity = _node_name(node)
        try:
            lines = (self.directory / "events").read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return 0
        rows = [line.split(" ") for line in lines]
        return sum(
            int(row[0]) in self._rules and row[2] == kind and identity in (wire.ANY_NODE, row[3])
            for row in rows
        )

    def wait_met(
        self,
        kind: str,
        node: ClusterNode | str = wire.ANY_NODE,
        count: int = 1,
        timeout: float = 20,
    ) -> None:
        """Waits until `count` messages of `kind` met a fault at `node`: one that stands.

        Raises:
            TimeoutError: they did not come.
        """
        _until(
            lambda: self.met(kind, node) >= count,
            timeout,
            lambda: f"{self.met(kind, node)} of {count} messages {kind!r} met a fault",
        )

    def close(self) -> None:
        """Ends all faults and lets go of the folder."""
        self.clear()
        self._shown.close()

    def _add(
        self,
        action: wire.Action,
        kind: str,
        node: ClusterNode | str,
        *,
        seconds: float = 0.0,
        answer: bool = False,
        times: int = 0,
    ) -> None:
        _check_kind(kind)
        self._last_id += 1
        self._rules[self._last_id] = wire.Rule(
            id=self._last_id,
            action=action,
            kind=kind,
            node=_node_name(node),
            seconds=seconds,
            answer=answer,
            times=times,
        )
        self._write()

    def _write(self) -> None:
        book = wire.Book(rules=tuple(self._rules.values()), cut=tuple(self._cut))
        draft = self.directory / "book.draft"
        draft.write_bytes(msgspec.json.encode(book))
        draft.replace(self.directory / "book.json")
        self._generation += 1
        # Last: who sees the new number finds the new book.
        self._shown[: wire.GENERATION_BYTES] = struct.pack("<Q", self._generation)


def _node_name(node: ClusterNode | str) -> str:
    text = node if isinstance(node, str) else node.node_id
    if text in (wire.ANY_NODE, wire.DRIVER, wire.GCS) or _HEX.fullmatch(text):
        return text
    raise ValueError(f"node {text!r} is neither a node, nor a node id in hex, nor '*'")


def _check_kind(kind: str) -> None:
    if kind in KINDS:
        return
    service, slash, method = kind.partition("/")
    for module in _SERVICES:
        known = module.DESCRIPTOR.services_by_name.get(service)
        if known is not None and method in known.methods_by_name:
            return
        if known is not None:
            names = ", ".join(known.methods_by_name)
            raise ValueError(f"service {service} has no method {method!r}; it has {names}")
    hint = f"; there is no service {service!r}" if slash else ""
    raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)} or Service/Method{hint}")


def _until(true: Callable[[], bool], timeout_s: float, why: Callable[[], str]) -> None:
    end = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s:g} s: {why()}")
        time.sleep(_LOOK_AGAIN_S)
