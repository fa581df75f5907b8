"""Nodes come, break, resume and die. Says what happened; `ControlCore` tells the other tables."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common import ids
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.cluster_identity import ClusterIdentity
from gcs_service.core.effects import (
    ConfirmSilence,
    DrainSettled,
    Effect,
    LeaveSession,
    NodeChanged,
    NodeSessionOpened,
    ProbeNode,
    Tell,
)
from gcs_service.core.liveness import Liveness
from gcs_service.core.moment import Moment
from gcs_service.core.node_table import NodeEntry, NodeTable
from gcs_service.core.tables import Write

OTHER_CLUSTER = "other_cluster"
DECLARED_DEAD = "declared_dead"
BAD_REQUEST = "bad_request"


class Membership:
    """The node table, who is connected, and the verdicts. Effects go to `out`, in order."""

    def __init__(self, identity: ClusterIdentity, out: list[Effect], ping_interval_ms: int) -> None:
        self._identity = identity
        self._out = out
        self.nodes = NodeTable(identity.first_revision)
        self.liveness = Liveness(ping_interval_ms)
        self._drains: dict[bytes, ns.DrainCommand] = {}
        self._asked: dict[bytes, ns.DrainCommand] = {}

    @property
    def drains_count(self) -> int:
        """Nodes that drain, or were asked whether they may."""
        return len(self._drains) + len(self._asked)

    def load(self, records: list[t.NodeRecord], drains: dict[bytes, bytes], at: Moment) -> None:
        """Nodes of the last life: those alive have a window to come back."""
        self._drains = {key: ns.DrainCommand.FromString(row) for key, row in drains.items()}
        for record in sorted(records, key=lambda row: row.revision):
            self.nodes.load(record)
        for entry in self.nodes.alive():
            node_id = entry.record.node_id
            self.liveness.broken(node_id, at.mono_ms, reachable_ms=limits.RECONNECT_REACHABLE_MS)
            self._out.append(ProbeNode(node_id, entry.record.address, 0))

    def send(self, node_id: bytes, item: ns.GcsItem) -> bool:
        """Queues an item for a node's session; False when it has none."""
        entry = self.nodes.get_alive(node_id)
        if entry is None or not entry.session:
            return False
        self._out.append(Tell(entry.session, item))
        return True

    def register(
        self, session: int, node_id: bytes, request: ns.RegisterNode, at: Moment
    ) -> NodeEntry | None:
        """Welcomes a node, or refuses it (None) and ends its session."""
        refusal = self._refusal(node_id, request)
        if refusal is not None:
            self._refuse(session, node_id, request.incarnation, refusal)
            return None
        known = self.nodes.get_alive(node_id)
        if known is not None and request.incarnation < known.incarnation:
            # From a stream that the agent gave up before it opened the present one: what it states
            # is not so any more.
            self._out.append(LeaveSession(session, node_id, request.incarnation))
            return None
        if known is not None and known.session and known.session != session:
            self._out.append(LeaveSession(known.session, node_id, known.incarnation))
        draining = known is not None and known.record.state == t.NODE_STATE_DRAINING
        record = _record_of(node_id, request, at, draining=draining)
        if known is not None:
            record.drain_deadline_ms = known.record.drain_deadline_ms
            record.drain_message = known.record.drain_message
        snapshot = ns.ResourceSnapshot()
        snapshot.CopyFrom(request.snapshot)
        if not snapshot.total.amounts:
            snapshot.total.CopyFrom(request.total)
            snapshot.available.CopyFrom(request.total)
        entry = self.nodes.join(record, session, snapshot)
        entry.incarnation, entry.has_relay = request.incarnation, request.has_relay
        self.liveness.connected(node_id, at.mono_ms)
        self._out.append(Write(tables.NODE, node_id, record.SerializeToString()))
        self._out.append(Tell(session, self._welcome(node_id, request.incarnation)))
        self._out.append(NodeSessionOpened(session, record, snapshot, request.last_revision))
        if draining and node_id in self._drains:
            self._out.append(
                Tell(session, ns.GcsItem(node_id=node_id, drain=self._drains[node_id]))
            )
        self._out.append(NodeChanged(record, self.nodes.scheduler_address()))
        return entry

    def session_closed(self, session: int, node_id: bytes, at: Moment) -> bool:
        """A node's stream ended; False when the node uses a newer one (or is dead)."""
        entry = self.nodes.get_alive(node_id)
        if entry is None or entry.session != session:
            return False
        entry.session = 0
        if self._asked.pop(node_id, None) is not None:
            message = "its session broke before it answered"
            self._out.append(DrainSettled(node_id, accepted=False, message=message))
        # The fault may be the relay's, and it may see it later than we do, by a keepalive or two.
        reachable_ms = limits.RECONNECT_REACHABLE_MS if entry.has_relay else 0
        self.liveness.broken(node_id, at.mono_ms, reachable_ms=reachable_ms)
        self._out.append(ProbeNode(node_id, entry.record.address, session))
        return True

    def bury(
        self, node_id: bytes, cause: t.NodeDeathCause.ValueType, message: str, at: Moment
    ) -> NodeEntry | None:
        """Declares a node dead. None: it was not alive."""
        before = self.nodes.get_alive(node_id)
        if before is None:
            return None
        draining = before.record.state == t.NODE_STATE_DRAINING
        drain = self._drains.pop(node_id, None)
        self._asked.pop(node_id, None)
        if draining and drain is not None:
            preempted = drain.reason == ns.DRAIN_REASON_PREEMPTION
            cause = t.NODE_DEATH_CAUSE_PREEMPTED if preempted else t.NODE_DEATH_CAUSE_DRAINED_IDLE
            # The agent's goodbye repeats what it was told, unless it was stopped otherwise.
            is_said = not drain.message or message.startswith(drain.message)
            told = "" if is_said else f" ({drain.message})"
            reason = "preempted" if preempted else "drained while idle"
            message = f"{reason}{told}: {message}"
        self.liveness.forget(node_id)
        session = before.session
        entry, forgotten = self.nodes.bury(node_id, cause, message, at.wall_ms)
        entry.session = 0
        self._out.append(Write(tables.NODE, node_id, entry.record.SerializeToString()))
        self._out.append(Write(tables.DRAIN, node_id, None))
        self._out += [Write(tables.NODE, old, None) for old in forgotten]
        if session:
            self._refuse(session, node_id, before.incarnation, (DECLARED_DEAD, message))
        self._out.append(NodeChanged(entry.record, self.nodes.scheduler_address()))
        return entry

    def ask_to_drain(self, entry: NodeEntry, command: ns.DrainCommand) -> None:
        """Orders a drain that the agent may decline; nothing is marked before its word."""
        node_id = entry.record.node_id
        self._asked[node_id] = command
        self.send(node_id, ns.GcsItem(node_id=node_id, drain=command))

    def take_asked(self, node_id: bytes) -> ns.DrainCommand | None:
        """The order that the agent answers now, if it was one it may decline."""
        return self._asked.pop(node_id, None)

    def drain(self, entry: NodeEntry, command: ns.DrainCommand, *, told: bool = True) -> None:
        """Marks a node as draining, durably, and orders it to, unless it knows (not `told`)."""
        node_id = entry.record.node_id
        state = t.NODE_STATE_ALIVE if command.cancel else t.NODE_STATE_DRAINING
        record = self.nodes.change(
            entry,
            state=state,
            drain_deadline_ms=command.deadline_ms,
            drain_message=_drain_text(command),
        )
        if command.cancel:
            self._drains.pop(node_id, None)
        else:
            self._drains[node_id] = command
        row = None if command.cancel else command.SerializeToString()
        self._out.append(Write(tables.DRAIN, node_id, row))
        self._out.append(Write(tables.NODE, node_id, record.SerializeToString()))
        if told:
            self.send(node_id, ns.GcsItem(node_id=node_id, drain=command))
        self._out.append(NodeChanged(record, self.nodes.scheduler_address()))

    def due(self, at: Moment) -> None:
        """Pings that are due, and silences to confirm."""
        for verdict in self.liveness.due(at.mono_ms):
            entry = self.nodes.get_alive(verdict.node_id)
            if entry is None:
                continue
            if verdict.ping_nonce is not None:
                ping = ns.GcsItem(node_id=verdict.node_id, ping=ns.Ping(nonce=verdict.ping_nonce))
                self._out.append(Tell(entry.session, ping, ("ping", verdict.node_id)))
            else:
                self._out.append(ConfirmSilence(verdict.node_id, entry.session))

    def _refusal(self, node_id: bytes, request: ns.RegisterNode) -> tuple[str, str] | None:
        if len(node_id) != ids.NODE_ID_BYTES or not request.address:
            return BAD_REQUEST, (
                f"a node registers with an id of {ids.NODE_ID_BYTES} bytes and its address;"
                f" got {len(node_id)} bytes and {request.address!r}"
            )
        if request.cluster_id and request.cluster_id != self._identity.cluster_id:
            return OTHER_CLUSTER, (
                f"this is cluster {self._identity.cluster_id.hex()},"
                f" the agent belongs to {request.cluster_id.hex()}"
            )
        known = self.nodes.get(node_id)
        if known is not None and not known.is_alive:
            return DECLARED_DEAD, f"declared dead: {known.record.death_message}"
        if known is None and self.nodes.alive_count >= limits.NODES_MAX:
            return BAD_REQUEST, f"the cluster has {limits.NODES_MAX} nodes, its limit"
        return None

    def _refuse(
        self, session: int, node_id: bytes, incarnation: int, refusal: tuple[str, str]
    ) -> None:
        refused = ns.Refused(reason=refusal[0], message=refusal[1])
        self._out.append(Tell(session, ns.GcsItem(node_id=node_id, refused=refused)))
        self._out.append(LeaveSession(session, node_id, incarnation))

    def _welcome(self, node_id: bytes, incarnation: int) -> ns.GcsItem:
        welcome = ns.Welcome(
            cluster_id=self._identity.cluster_id,
            epoch=self._identity.epoch,
            session_name=self._identity.session_name,
            settings=self._identity.node_settings,
            revision=self.nodes.revision,
            scheduler_address=self.nodes.scheduler_address(),
            incarnation=incarnation,
            ping_interval_ms=self.liveness.interval_ms,
        )
        return ns.GcsItem(node_id=node_id, welcome=welcome)


def _drain_text(command: ns.DrainCommand) -> str:
    if command.cancel:
        return ""
    preempted = command.reason == ns.DRAIN_REASON_PREEMPTION
    reason = "preemption" if preempted else "idle termination"
    return f"{reason}: {command.message}" if command.message else reason


def _record_of(
    node_id: bytes, request: ns.RegisterNode, at: Moment, *, draining: bool
) -> t.NodeRecord:
    return t.NodeRecord(
        node_id=node_id,
        state=t.NODE_STATE_DRAINING if draining else t.NODE_STATE_ALIVE,
        address=request.address,
        hostname=request.hostname,
        node_name=request.node_name,
        total=request.total,
        labels=dict(request.labels),
        is_head=request.is_head,
        is_scheduler=request.is_scheduler,
        start_time_ms=request.start_time_ms or at.wall_ms,
        pid=request.pid,
    )
