"""Every queue, backlog and table of the shell with length and cap, for `shoal status -v`."""

from __future__ import annotations

from collections.abc import Sequence

from cluster_api.v1 import gcs_pb2 as g
from cluster_common import limits as common_limits
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.bounds_report import Row
from gcs_service.core.placement.limits import GROUPS_MAX
from gcs_service.shell.demand_host import DemandHost
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.journal import Journal
from gcs_service.shell.kv_host import KvHost
from gcs_service.shell.loop_bridge import LoopBridge
from gcs_service.shell.node_broadcast import NodeBroadcast
from gcs_service.shell.reachability import Reachability
from gcs_service.shell.session_hub import SessionHub


class BoundsReport:
    """Reads lengths only; from the loop's thread."""

    def __init__(
        self,
        hub: SessionHub,
        broadcast: NodeBroadcast,
        kv: KvHost,
        demand: DemandHost,
        journal: Journal,
        reachability: Reachability,
        executors: Sequence[NamedExecutor],
        bridges: Sequence[LoopBridge],
    ) -> None:
        self._hub = hub
        self._broadcast = broadcast
        self._kv = kv
        self._demand = demand
        self._journal = journal
        self._reachability = reachability
        self._executors = executors
        self._bridges = bridges

    def statuses(self) -> list[g.TableStatus]:
        """One row for each."""
        rows = [*self._streams(), *self._nodes(), *self._of_demand(), *self._queues()]
        statuses = [g.TableStatus(name=name, rows=n, rows_max=most) for name, n, most in rows]
        kv = self._kv.table
        for name, count, most in kv.bounds():
            # Bytes count for the table only: its indexes hold the same keys.
            size = kv.bytes_used if name == tables.KV else 0
            statuses.append(g.TableStatus(name=name, rows=count, rows_max=most, bytes=size))
        return statuses

    def _streams(self) -> list[Row]:
        return [
            ("session", len(self._hub), limits.SESSIONS_MAX),
            ("session_backlog", self._hub.longest_backlog, common_limits.OUTBOX_ITEMS_MAX),
            ("session_write_waiting", self._hub.writes_waiting, limits.SESSIONS_MAX),
            ("probe", len(self._reachability), limits.NODES_MAX),
        ]

    def _nodes(self) -> list[Row]:
        table = self._broadcast.table
        return [
            ("node_view", table.views_count, limits.NODES_MAX),
            ("node_watch", table.watchers_count, limits.SESSIONS_MAX),
            ("node_change_log", table.log_length, limits.NODE_REVISIONS_KEPT),
        ]

    def _of_demand(self) -> list[Row]:
        table = self._demand.table
        constraint = table.constraint.resource_requests
        return [
            ("demand_report", len(table), limits.NODES_MAX),
            ("demand_taken", len(table.taken), limits.DEMAND_TAKEN_MAX),
            ("demand_group", table.groups_count, GROUPS_MAX),
            ("demand_node_dead", len(table.dead), limits.DEAD_NODES_MAX),
            ("demand_constraint", len(constraint), limits.CONSTRAINT_ROWS_MAX),
            ("demand_waiter", self._demand.waiters_count, limits.DEMAND_WAITERS_MAX),
        ]

    def _queues(self) -> list[Row]:
        """Whoever waits in one has a call open, or a stream that is read more slowly."""
        calls = common_limits.SERVER_CALLS_OPEN_MAX + limits.EXECUTOR_QUEUE_ITEMS_MAX
        queues = [(f"queue_{each.name}", each.queue_length, calls) for each in self._executors]
        outputs = sum(bridge.queue_length for bridge in self._bridges)
        return [
            *queues,
            ("queue_io_loop", outputs, calls + limits.LOOP_OUTPUTS_MAX),
            ("store_held_row", self._journal.held_rows, limits.STORE_LOST_ROWS_MAX),
            ("store_held_output", self._journal.held_outputs, limits.STORE_LOST_OUTPUTS_MAX),
        ]
