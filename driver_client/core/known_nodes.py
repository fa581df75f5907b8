"""What an owner heard of nodes: which are dead, and whose end was announced."""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import types_pb2 as t


class KnownNodes:
    """By node id. Told twice, by the node itself and by the GCS, the first counts."""

    __slots__ = ("_dead", "_draining")

    def __init__(self) -> None:
        self._dead: set[bytes] = set()
        self._draining: set[bytes] = set()

    def is_draining(self, node_id: bytes) -> bool:
        """Whether its end was announced."""
        return node_id in self._draining

    def drains(self, node_id: bytes) -> bool:
        """Its end is announced; whether that is news."""
        if node_id in self._draining or node_id in self._dead:
            return False
        self._draining.add(node_id)
        return True

    def stays(self, node_id: bytes) -> None:
        """It goes on after all, or its leases were told how they ended."""
        self._draining.discard(node_id)

    def died(self, node: t.NodeRecord) -> bool:
        """Whether that is news."""
        if node.node_id in self._dead:
            return False
        self._dead.add(node.node_id)
        if node.death_cause == t.NODE_DEATH_CAUSE_PREEMPTED:
            self._draining.add(node.node_id)
        return True

    def loss_of(self, node_id: bytes) -> pb.WorkerEndCause.ValueType:
        """Why a worker of this node is gone."""
        announced = node_id in self._draining
        return pb.WORKER_END_CAUSE_PREEMPTED if announced else pb.WORKER_END_CAUSE_NODE_DIED


def death_text(node: t.NodeRecord) -> str:
    """One sentence for whoever had something there."""
    cause = t.NodeDeathCause.Name(node.death_cause).removeprefix("NODE_DEATH_CAUSE_")
    return f"node {node.node_id.hex()} died ({cause}): {node.death_message}"
