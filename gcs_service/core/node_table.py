"""The nodes of the cluster: records, revisions, sessions, newest snapshots, causes of death."""

from __future__ import annotations

from collections.abc import Iterator

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common.identity_resources import identity_of
from gcs_service import limits


class NodeEntry:
    """One node. `record` is replaced, never changed: other threads may read it."""

    __slots__ = ("has_relay", "incarnation", "record", "session", "snapshot")

    def __init__(self, record: t.NodeRecord, session: int, snapshot: ns.ResourceSnapshot) -> None:
        self.record = record
        self.session = session
        self.snapshot = snapshot
        self.incarnation = 0
        """Of the agent's newest session, in this life of the service."""
        self.has_relay = False
        """Whether another agent carries that session, or may carry the next."""

    @property
    def is_alive(self) -> bool:
        """Alive or draining."""
        return self.record.state != t.NODE_STATE_DEAD

    def listed(self) -> t.NodeRecord:
        """The record with what the newest snapshot says."""
        record = t.NodeRecord()
        record.CopyFrom(self.record)
        if self.is_alive and self.snapshot.version:
            record.total.CopyFrom(self.snapshot.total)
            record.available.CopyFrom(self.snapshot.available)
            record.idle_ms = self.snapshot.idle_ms
            record.snapshot_version = self.snapshot.version
            record.bundle_use.extend(self.snapshot.bundle_use)
        if self.is_alive:
            self._add_identity(record)
        return record

    def _add_identity(self, record: t.NodeRecord) -> None:
        names = identity_of(record.address, is_head=record.is_head)
        record.total.amounts.update(names)
        if self.snapshot.version:
            record.available.amounts.update(names)
            for name, used in self.snapshot.identity_used.amounts.items():
                record.available.amounts[name] -= used


class NodeTable:
    """All nodes alive, in order of joining, and the newest dead ones.

    Invariant: revisions grow with every change of a record and are unique.
    """

    def __init__(self, first_revision: int) -> None:
        self.revision = first_revision
        self._alive: dict[bytes, NodeEntry] = {}
        self._dead: dict[bytes, NodeEntry] = {}
        self._by_address: dict[str, bytes] = {}
        self._schedulers: dict[bytes, NodeEntry] = {}

    @property
    def alive_count(self) -> int:
        """Nodes alive or draining."""
        return len(self._alive)

    @property
    def dead_count(self) -> int:
        """Dead nodes still listed."""
        return len(self._dead)

    def alive(self) -> Iterator[NodeEntry]:
        """Nodes alive, oldest first."""
        return iter(self._alive.values())

    def get(self, node_id: bytes) -> NodeEntry | None:
        """A node alive or dead."""
        return self._alive.get(node_id) or self._dead.get(node_id)

    def get_alive(self, node_id: bytes) -> NodeEntry | None:
        """A node alive."""
        return self._alive.get(node_id)

    def load(self, record: t.NodeRecord) -> None:
        """A row of the last life of the service; alive ones have no session yet."""
        entry = NodeEntry(record, 0, ns.ResourceSnapshot())
        table = self._alive if entry.is_alive else self._dead
        table[record.node_id] = entry
        if entry.is_alive:
            self._by_address[record.address] = record.node_id

    def join(self, record: t.NodeRecord, session: int, snapshot: ns.ResourceSnapshot) -> NodeEntry:
        """A node registers, for the first time or again."""
        self.revision += 1
        record.revision = self.revision
        entry = self._alive.get(record.node_id)
        if entry is None:
            entry = NodeEntry(record, session, snapshot)
            self._alive[record.node_id] = entry
        else:
            entry.record, entry.session, entry.snapshot = record, session, snapshot
        if record.is_scheduler:
            self._schedulers[record.node_id] = entry
        self._by_address[record.address] = record.node_id
        return entry

    def left_behind_at(self, address: str, node_id: bytes) -> NodeEntry | None:
        """Another node without a session at this address: a later agent listens there now."""
        other = self._alive.get(self._by_address.get(address, b""))
        if other is None or other.session or other.record.node_id == node_id:
            return None
        return other

    def change(self, entry: NodeEntry, **fields: object) -> t.NodeRecord:
        """A new record with these fields changed, under the next revision."""
        record = t.NodeRecord()
        record.CopyFrom(entry.record)
        for name, value in fields.items():
            setattr(record, name, value)
        self.revision += 1
        record.revision = self.revision
        entry.record = record
        return record

    def bury(
        self, node_id: bytes, cause: t.NodeDeathCause.ValueType, message: str, wall_ms: int
    ) -> tuple[NodeEntry, list[bytes]]:
        """Moves a node to the dead; also returns the ids that fell off the list."""
        entry = self._alive.pop(node_id)
        self._schedulers.pop(node_id, None)
        if self._by_address.get(entry.record.address) == node_id:
            del self._by_address[entry.record.address]
        self.change(
            entry,
            state=t.NODE_STATE_DEAD,
            death_cause=cause,
            death_message=message,
            end_time_ms=wall_ms,
        )
        self._dead[node_id] = entry
        forgotten: list[bytes] = []
        while len(self._dead) > limits.DEAD_NODES_MAX:
            oldest = next(iter(self._dead))
            del self._dead[oldest]
            forgotten.append(oldest)
        return entry, forgotten

    def rows(self, *, alive_only: bool, limit: int) -> list[t.NodeRecord]:
        """Records for a list: alive ones first, then the newest dead."""
        limit = min(limit or limits.LIST_ROWS_MAX, limits.NODES_MAX)
        records = [entry.listed() for entry in list(self._alive.values())[:limit]]
        if not alive_only:
            dead = list(self._dead.values())[::-1]
            records += [entry.record for entry in dead[: limit - len(records)]]
        return records

    def scheduler_address(self) -> str:
        """The agent that picks nodes for others' leases: the oldest one with that role."""
        for entry in self._schedulers.values():
            if entry.session:
                return entry.record.address
        return ""

    def head_address(self) -> str:
        """The agent of the head node."""
        for entry in self._alive.values():
            if entry.record.is_head:
                return entry.record.address
        return ""
