"""The node as others see it: resource snapshots and demand, built when they are sent."""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common import labels as label_rules
from raylet_agent.core.demand import Demand
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.ledger import Ledger
from raylet_agent.core.sendings import SendingsSeen


class Snapshots:
    """Builds versions of the node's state. Each message built has a higher version than the last.

    Group resources are left out of what goes to the GCS: nobody schedules by them, and every group
    would make every node unique.
    """

    def __init__(self, facts: NodeFacts, ledger: Ledger, demand: Demand, now_ms: int) -> None:
        self._facts = facts
        self._ledger = ledger
        self._demand = demand
        self._version = 0
        self.applied_reservations = 0
        self.workers = 0
        self.leases = 0
        self.idle_since_ms = now_ms
        self.now_ms = now_ms
        self._was_idle = True
        self.sendings = SendingsSeen()

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
            leases_taken=self._demand.arrivals.named(self.now_ms),
            bundle_use=self._ledger.bundle_use(),
            sendings_seen=self.sendings.named(self.now_ms),
            identity_used=self._identity_used(),
        )

    def _identity_used(self) -> t.ResourceSet | None:
        used = self._ledger.identity_used()
        return t.ResourceSet(amounts=used) if used else None

    def demand(self) -> n.DemandReport:
        """What waits here, now."""
        return self._demand.report()


def node_labels(labels: dict[str, str], node_id: bytes) -> dict[str, str]:
    """The user's labels and the node's own."""
    return {**labels, label_rules.NODE_ID_LABEL: node_id.hex()}
