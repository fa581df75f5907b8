"""The executor `node_broadcast`: builds what fans out once, and hands it to the loop in chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core.broadcast_table import BroadcastTable, FanOut
from gcs_service.core.effects import NodeSessionOpened
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.loop_bridge import LoopBridge
from gcs_service.shell.loop_inbox import LoopInbox
from gcs_service.shell.session_hub import SessionHub


class NodeBroadcast:
    """Events come from the loop, fan-outs leave through the hub, on the loop again."""

    def __init__(self, table: BroadcastTable, bridge: LoopBridge, hub: SessionHub) -> None:
        self.table = table
        self._bridge = bridge
        self._hub = hub
        self.executor = NamedExecutor("node_broadcast")
        self._inbox = LoopInbox(self.executor)

    def opened(self, effect: NodeSessionOpened) -> None:
        """A welcomed node."""
        self._submit(self.table.opened, effect)

    def closed(self, session: int, node_id: bytes) -> None:
        """Its stream ended."""
        self._inbox.post(self.table.closed, session, node_id)

    def snapshot(self, node_id: bytes, snapshot: ns.ResourceSnapshot) -> None:
        """A node's newest numbers."""
        self._submit(self.table.snapshot, node_id, snapshot)

    def changed(self, record: t.NodeRecord, scheduler_address: str) -> None:
        """A node's state changed."""
        self._submit(self.table.changed, record, scheduler_address)

    def owners_ended(self, owner_ids: tuple[bytes, ...]) -> None:
        """Owners that ended."""
        self._submit(self.table.owners_ended, owner_ids)

    def watch(self, session: int, from_revision: int) -> None:
        """A `WatchNodes` stream begins."""
        self._submit(self.table.watch, session, from_revision)

    def unwatch(self, session: int) -> None:
        """It ended."""
        self._inbox.post(self.table.unwatch, session)

    def _submit(self, call: Any, *args: Any) -> None:
        self._inbox.post(self._carry, call, args)

    def _carry(self, call: Any, args: tuple[Any, ...]) -> None:
        fan_outs: Iterable[FanOut] = call(*args)
        for fan_out in fan_outs:
            sessions = fan_out.sessions
            for first in range(0, len(sessions), limits.BROADCAST_CHUNK_SESSIONS):
                chunk = sessions[first : first + limits.BROADCAST_CHUNK_SESSIONS]
                self._bridge.post(self._hub.tell_many, chunk, fan_out.item, fan_out.key)
