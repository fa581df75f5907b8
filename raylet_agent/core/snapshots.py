"""The node as others see it: resource snapshots and demand, built when they are sent."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common import labels as label_rules
from raylet_agent import limits
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.lease import Lease
from raylet_agent.core.lease_queue import LeaseQueue
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.shape import Shape
from raylet_agent.core.transit import Arrivals, Transit


class Snapshots:
    """Builds versions of the node's state. Each message built has a higher version than the last.

    Group resources are left out of what goes to the GCS: nobody schedules by them, and every group
    would make every node unique.
    """

    def __init__(self, facts: NodeFacts, ledger: Ledger, queue: LeaseQueue, now_ms: int) -> None:
        self._facts = facts
        self._ledger = ledger
        self._queue = queue
        self._version = 0
        self._demand_version = 0
        self.applied_reservations = 0
        self.workers = 0
        self.leases = 0
        self.idle_since_ms = now_ms
        self.now_ms = now_ms
        self.transit = Transit()
        self.arrivals = Arrivals()
        self._was_idle = True

    def build(self, *, with_groups: bool = False) -> n.ResourceSnapshot:
        """The node now."""
        self._version += 1
        idle = self.leases == 0 and not any(True for _ in self._ledger.bundles.rows())
        if idle and not self._was_idle:
            self.idle_since_ms = self.now_ms
        self._was_idle = idle
        return n.ResourceSnapshot(
            version=self._version,
            total=t.ResourceSet(amounts=self._ledger.totals(with_groups=with_groups)),
            available=t.ResourceSet(amounts=self._ledger.availables(with_groups=with_groups)),
            devices=self._ledger.device_sets(),
            labels=self._facts.labels,
            # 0 means busy: a node that became idle this moment has been so for the shortest time.
            idle_ms=max(1, self.now_ms - self.idle_since_ms) if idle else 0,
            draining=self._facts.draining,
            applied_reservations=self.applied_reservations,
            workers=self.workers,
            leases=self.leases,
            leases_taken=self.arrivals.named(self.now_ms),
        )

    def demand(self) -> n.DemandReport:
        """Waiting requests outside groups by shape; the longest lines when there are too many."""
        self._demand_version += 1
        rows = [
            (len(line), shape, next(iter(line.values()))) for shape, line in self._queue.lines()
        ]
        rows.sort(key=lambda row: -row[0])
        return n.DemandReport(
            version=self._demand_version,
            entries=[
                n.DemandEntry(
                    resources=t.ResourceSet(amounts=shape.needed()),
                    selector=t.LabelSelector(terms=_terms(shape, head)),
                    count=count,
                    infeasible=head.infeasible,
                )
                for count, shape, head in rows[: limits.DEMAND_ENTRIES_MAX]
            ],
            in_transit=self.transit.report(),
        )


def _terms(shape: Shape, head: Lease) -> dict[str, str]:
    """The selector; work bound to one node says so, for no other node can help."""
    terms = dict(head.request.selector.terms)
    if shape.affinity and not shape.affinity_soft:
        terms[label_rules.NODE_ID_LABEL] = shape.affinity.hex()
    return terms


def node_labels(labels: dict[str, str], node_id: bytes) -> dict[str, str]:
    """The user's labels and the node's own."""
    return {**labels, label_rules.NODE_ID_LABEL: node_id.hex()}
