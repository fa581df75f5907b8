"""Demand: what waits for room, beside what every node has. One version, one moment.

Updates come as wholes (see `demand_facts`), so that no look at the table finds a request pending
and placed, or neither. A request that a scheduler sent to a node is pending until that node's
snapshot names it, whichever of the two reports comes first (see `demand_taken`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import node_session_pb2 as ns
from gcs_service import limits
from gcs_service.core import effects, tables
from gcs_service.core.demand_facts import DemandUpdate
from gcs_service.core.demand_groups import GroupRow
from gcs_service.core.demand_rows import NodeRow, dead_row
from gcs_service.core.demand_taken import ShapeKey, TakenRequests, shape_key
from gcs_service.core.effects import Refusal
from gcs_service.core.tables import Write

_EntryKey = tuple[ShapeKey, bool]
_COUNT_MAX = (1 << 63) - 1
"""What agents state is added up: no sum of lies may be more than an answer can carry."""


class DemandTable:
    """Everything an autoscaler asks for. `version` grows with every change."""

    def __init__(self, first_version: int = 1, session_name: str = "") -> None:
        self.version = first_version
        self.session_name = session_name
        self.nodes: dict[bytes, NodeRow] = {}
        self.dead: deque[tuple[bytes, bytes]] = deque(maxlen=limits.DEAD_NODES_MAX)
        self.constraint = auto.ClusterResourceConstraint()
        self.cluster_config = auto.ClusterConfig()
        self.autoscaling_state = auto.AutoscalingState()
        self.writes: list[Write] = []
        self._reports: dict[bytes, ns.DemandReport] = {}
        self._wanting: dict[bytes, ns.DemandReport] = {}
        self.taken = TakenRequests()
        self._groups: dict[bytes, GroupRow] = {}
        self._detached: list[ns.DemandEntry] = []
        self._entries: tuple[int, list[ns.DemandEntry]] | None = None

    def __len__(self) -> int:
        return len(self._reports)

    @property
    def groups_count(self) -> int:
        """Groups that wait."""
        return len(self._groups)

    def load(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """What the last life of the service was told to keep."""
        for key, value in rows:
            if key == tables.CONSTRAINT:
                self.constraint = auto.ClusterResourceConstraint.FromString(value)
            elif key == tables.CLUSTER_CONFIG:
                self.cluster_config = auto.ClusterConfig.FromString(value)

    # ---- what happened

    def apply(self, update: DemandUpdate) -> None:
        """One step of the cluster."""
        for node_id, fact in update.nodes.items():
            row = self.nodes.get(node_id)
            if fact is None:
                self._bury(node_id)
            elif row is None:
                self.nodes[node_id] = NodeRow(fact)
                self.taken.named(node_id, fact.snapshot.leases_taken)
            else:
                if fact.snapshot is not row.fact.snapshot:
                    self.taken.named(node_id, fact.snapshot.leases_taken)
                row.replace(fact)
        for node_id, report in update.reports:
            self._report(node_id, report)
        for group_id, group in update.groups.items():
            if group is None:
                self._groups.pop(group_id, None)
            else:
                self._groups[group_id] = GroupRow(group)
        if update.detached is not None:
            self._detached = list(update.detached)
        self.version += 1

    def _bury(self, node_id: bytes) -> None:
        row = self.nodes.pop(node_id, None)
        self._reports.pop(node_id, None)
        self._wanting.pop(node_id, None)
        self.taken.node_gone(node_id)
        if row is not None:
            self.dead.append((node_id, dead_row(row.fact.record)))

    def _report(self, node_id: bytes, report: ns.DemandReport | None) -> None:
        """The whole demand of an agent; an older report than the known one changes nothing."""
        if report is None:
            self._reports.pop(node_id, None)
            self._wanting.pop(node_id, None)
            self.taken.report_gone(node_id)
            return
        known = self._reports.get(node_id)
        if known is None or known.version < report.version:
            self._reports[node_id] = report
            if report.entries or report.in_transit:
                self._wanting[node_id] = report
            else:
                self._wanting.pop(node_id, None)
            self.taken.reported(node_id, report)

    # ---- what people and autoscalers say

    def request_constraint(self, constraint: auto.ClusterResourceConstraint) -> Refusal | None:
        """A floor for the cluster's size, durable; replaces the one before."""
        rows = constraint.resource_requests
        if len(rows) > limits.CONSTRAINT_ROWS_MAX:
            return Refusal(
                effects.BAD_REQUEST,
                f"a constraint of {len(rows)} rows; {limits.CONSTRAINT_ROWS_MAX} are allowed",
            )
        for row in rows:
            amounts = row.request.resources_bundle.amounts
            if not amounts or any(amount < 0 for amount in amounts.values()):
                return Refusal(
                    effects.BAD_REQUEST,
                    "every row of a constraint needs resources, none of them negative",
                )
        self.constraint = constraint
        value = constraint.SerializeToString() if rows else None
        self.writes.append(Write(tables.AUTOSCALER, tables.CONSTRAINT, value))
        self.version += 1
        return None

    def report_config(self, config: auto.ClusterConfig) -> Refusal | None:
        """The autoscaler's node types, durable."""
        if len(config.node_group_configs) > limits.NODE_TYPES_MAX:
            return Refusal(effects.BAD_REQUEST, f"more than {limits.NODE_TYPES_MAX} node types")
        if config == self.cluster_config:
            return None
        self.cluster_config = config
        self.writes.append(
            Write(tables.AUTOSCALER, tables.CLUSTER_CONFIG, config.SerializeToString())
        )
        return None

    def report_autoscaling(self, state: auto.AutoscalingState) -> bool:
        """Keeps the newest state. Not part of the version: it would wake who just said it."""
        known = self.autoscaling_state.autoscaler_state_version
        if state.autoscaler_state_version < known:
            return False
        self.autoscaling_state = state
        return True

    def take_writes(self) -> list[Write]:
        """Rows that became different since the last call, in order."""
        writes, self.writes = self.writes, []
        return writes

    # ---- questions

    def groups(self) -> list[GroupRow]:
        """Groups that wait, oldest first."""
        rows = sorted(self._groups.values(), key=lambda row: row.fact.order)
        return rows[: limits.DEMAND_GROUPS_MAX]

    def marks(self) -> dict[bytes, bytes]:
        """What nodes with bundles of strictly spread groups that wait have beside their rows."""
        marks: dict[bytes, bytes] = {}
        for row in self._groups.values():
            if row.fact.holders:
                mark = row.mark()
                for node_id in row.fact.holders:
                    marks[node_id] = marks.get(node_id, b"") + mark
        return marks

    def entries(self) -> list[ns.DemandEntry]:
        """Sums over nodes; shapes in order of their text, so that two looks compare."""
        if self._entries is not None and self._entries[0] == self.version:
            return self._entries[1]
        sums: dict[_EntryKey, ns.DemandEntry] = {}
        for node_id, report in self._wanting.items():
            owed = self.taken.owed(node_id)
            # What no node could hold was not taken: of two entries of a shape lower the other one.
            for entry in sorted(report.entries, key=_is_infeasible) if owed else report.entries:
                _add(sums, entry, owed)
            for lease in report.in_transit:
                if not self.taken.arrived(node_id, lease):
                    one = ns.DemandEntry(
                        resources=lease.resources, selector=lease.selector, count=1
                    )
                    _add(sums, one)
        for entry in self._detached:
            _add(sums, entry)
        rows = [sums[key] for key in sorted(sums)][: limits.LIST_ROWS_MAX]
        self._entries = (self.version, rows)
        return rows


def _is_infeasible(entry: ns.DemandEntry) -> bool:
    return entry.infeasible


def _add(
    sums: dict[_EntryKey, ns.DemandEntry],
    entry: ns.DemandEntry,
    owed: Counter[ShapeKey] | None = None,
) -> None:
    shape = shape_key(entry.resources.amounts, entry.selector.terms)
    count = entry.count
    if owed:
        less = min(count, owed[shape])
        owed[shape] -= less
        count -= less
    if not count:
        return
    key = (shape, entry.infeasible)
    known = sums.get(key)
    if known is None:
        sums[key] = known = ns.DemandEntry()
        known.CopyFrom(entry)
        known.count = count
    else:
        known.count = min(known.count + count, _COUNT_MAX)
