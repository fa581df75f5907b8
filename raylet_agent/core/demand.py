"""What waits here for room somewhere, as this agent reports it to the GCS.

Three parts: requests that wait here, requests sent away and not yet seen to have arrived (see
`transit`), and what owners would ask for if they had more requests open (see `backlogs`).
"""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from raylet_agent import limits
from raylet_agent.core.backlogs import Backlogs
from raylet_agent.core.effects import Effect, ReportDemand, ReportSnapshot
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease
from raylet_agent.core.lease_queue import LeaseQueue
from raylet_agent.core.shape import Shape
from raylet_agent.core.transit import Arrivals, Departure, Transit, demand_selector


class Demand:
    """The books of it. `version`: of the newest report; a report is built when it leaves."""

    def __init__(self, facts: NodeFacts, queue: LeaseQueue, out: list[Effect]) -> None:
        self._facts = facts
        self._queue = queue
        self._out = out
        self.version = 0
        self.transit = Transit()
        self.arrivals = Arrivals()
        self.backlogs = Backlogs()

    def report(self) -> n.DemandReport:
        """Everything outside groups, by shape; the largest counts when there are too many."""
        self.version += 1
        entries: dict[Shape, n.DemandEntry] = {}
        for shape, line in self._queue.lines():
            head = next(iter(line.values()))
            entry = entries[shape] = _entry(shape, head.request, len(line))
            entry.infeasible = head.infeasible
        for backlog in self.backlogs.rows():
            shape = backlog.shape
            entry = entries.get(shape)
            if entry is None:
                entries[shape] = _entry(shape, backlog.request, backlog.count)
            else:
                entry.count += backlog.count
        rows = sorted(entries.values(), key=lambda entry: -entry.count)
        return n.DemandReport(
            version=self.version,
            entries=rows[: limits.DEMAND_ENTRIES_MAX],
            in_transit=self.transit.report(),
        )

    # ---- requests that come

    def backlog_told(self, owner_id: bytes, request: a.LeaseRequest, shape: Shape) -> int:
        """A request, or an item without one, says how many more there would be.

        Returns:
            Version of the first report that counted this request as one of those; 0: none did.
        """
        if not request.HasField("backlog") or request.grant_or_reject or shape.group_id:
            return 0
        since = self.backlogs.since_version(owner_id, request.backlog.key)
        if self.backlogs.told(owner_id, request, shape, self.version + 1):
            self._out.append(ReportDemand())
        return since

    def came_back(self, lease: Lease) -> None:
        """A request comes to the scheduler; it may have been sent away before."""
        departure = self.transit.came_back(lease.lease_id)
        if departure is not None:
            lease.counted_since = departure.lease.counted_since
            self._out.append(ReportDemand())

    def waits(self, lease: Lease) -> None:
        """A request entered a line."""
        lease.counted_since = lease.counted_since or self.version + 1

    # ---- requests that go

    def left(self, lease: Lease, node_id: bytes, now_ms: int) -> None:
        """What counted as demand goes on counting until it is seen where it was sent."""
        if lease.counted_since:
            self.transit.left(Departure(lease, node_id, now_ms, self.version))
            self._out.append(ReportDemand())

    def counted(self, lease: Lease) -> n.CountedDemand | None:
        """Which reports count the request without naming it; None: it is no demand of this agent.

        Goes with the request, before or after `left`, so that its receiver can say it.
        """
        departure = self.transit.get(lease.lease_id)
        since = lease.counted_since if departure is None else departure.lease.counted_since
        if not since:
            return None
        last = self.version if departure is None else departure.last_version
        return n.CountedDemand(node_id=self._facts.node_id, first_version=since, last_version=last)

    def withdrawn(self, lease_id: bytes, now_ms: int) -> None:
        """A request that is not here is not wanted any more."""
        if self.transit.came_back(lease_id) is not None:
            self._out.append(ReportDemand())
        else:
            # Withdrawn on its way here: whoever sent it learns of it by the next snapshot.
            self.arrivals.withdrawn(lease_id, now_ms)
            self._out.append(ReportSnapshot())

    # ---- what others say

    def seen(self, view: n.NodeView) -> None:
        """A node names the requests that it took."""
        taken = [one.lease_id for one in view.snapshot.leases_taken]
        if taken and self.transit.arrived(view.node_id, taken):
            self._out.append(ReportDemand())

    def owner_gone(self, owner_id: bytes) -> None:
        """Nobody wants what this owner asked for."""
        asked = self.backlogs.owner_gone(owner_id)
        if self.transit.owner_gone(owner_id) or asked:
            self._out.append(ReportDemand())

    def expire(self, now_ms: int) -> None:
        """Forgets what was lost on its way."""
        if self.transit.expire(now_ms):
            self._out.append(ReportDemand())


def _entry(shape: Shape, request: a.LeaseRequest, count: int) -> n.DemandEntry:
    return n.DemandEntry(
        resources=t.ResourceSet(amounts=shape.needed()),
        selector=demand_selector(shape, request.selector),
        count=count,
    )
