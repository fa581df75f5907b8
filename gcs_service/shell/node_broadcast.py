"""The executor `node_broadcast`: builds what fans out once, and hands it to the loop in chunks.

Ends of owners that come while a fan-out of them is still being handed over leave together as the
next one: every stream gets one item, however many owners ended meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core.broadcast_table import BroadcastTable, FanOut
from gcs_service.core.effects import NodeSessionOpened
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.framed import framed
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
        self._ended: dict[bytes, None] = {}
        self._tells_of_ends = False

    @property
    def backlog(self) -> int:
        """Chunks of fan-outs that wait for the loop."""
        return self._bridge.queue_length

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
        self._inbox.post(self._note_ends, owner_ids)

    def watch(self, session: int, from_revision: int) -> None:
        """A `WatchNodes` stream begins."""
        self._submit(self.table.watch, session, from_revision)

    def unwatch(self, session: int) -> None:
        """It ended."""
        self._inbox.post(self.table.unwatch, session)

    def _submit(self, call: Any, *args: Any) -> None:
        self._inbox.post(self._carry, call, args)

    def _carry(self, call: Any, args: tuple[Any, ...]) -> None:
        self._hand_over(call(*args))

    def _hand_over(self, fan_outs: Iterable[FanOut]) -> None:
        for fan_out in fan_outs:
            sessions, item = fan_out.sessions, framed(fan_out.item)
            for first in range(0, len(sessions), limits.BROADCAST_CHUNK_SESSIONS):
                chunk = sessions[first : first + limits.BROADCAST_CHUNK_SESSIONS]
                self._bridge.post(self._hub.tell_many, chunk, item, fan_out.key)

    def _note_ends(self, owner_ids: tuple[bytes, ...]) -> None:
        self._ended.update(dict.fromkeys(owner_ids))
        if not self._tells_of_ends:
            self._tell_ends()

    def _tell_ends(self) -> None:
        ended, self._ended = tuple(self._ended), {}
        self._tells_of_ends = bool(ended)
        if ended:
            self._hand_over(self.table.owners_ended(ended))
            # Behind the chunks: comes back when the last of them was handed over.
            self._bridge.post(self.executor.submit, self._tell_ends)
