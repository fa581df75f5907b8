"""Do the books agree? Agents check their own; the GCS's groups are compared with what they hold.

Both sides change while they are read, so a difference counts only if it stays.
"""

from __future__ import annotations

import time

import msgspec

from cluster_api.v1 import agent_pb2, types_pb2
from cluster_api.v1 import placement_groups_pb2 as groups_pb2
from cluster_common import resources
from shoal.gcs_calls import ClusterCallError, GcsCalls, agent_ledger

SETTLE_S = 5.0
"""How long a difference may last while reports are on their way."""

LOOK_AGAIN_S = 0.05

Held = set[tuple[str, int]]


class LedgerMismatchError(AssertionError):
    """The books differ; the message has one line for each difference."""


class LedgerReport(msgspec.Struct, frozen=True):
    """What one look found. `differences` is empty when all is well."""

    nodes: int
    bundles: int
    differences: list[str]

    def to_dict(self) -> dict[str, object]:
        """For JSON."""
        return {"nodes": self.nodes, "bundles": self.bundles, "differences": self.differences}


def settled_report(gcs: GcsCalls, settle_s: float = SETTLE_S) -> LedgerReport:
    """The first look without a difference, or the last one within `settle_s`."""
    end = time.monotonic() + settle_s
    while True:
        report = look(gcs)
        if not report.differences or time.monotonic() > end:
            return report
        # Nothing tells an outsider when the reports have arrived.
        time.sleep(LOOK_AGAIN_S)


def look(gcs: GcsCalls) -> LedgerReport:
    """One comparison of all agents alive with the GCS."""
    expected = _expected_bundles(gcs)
    differences: list[str] = []
    nodes = gcs.nodes(alive_only=True).nodes
    bundles = 0
    for node in nodes:
        try:
            answer = agent_ledger(node.address)
        except ClusterCallError as error:
            differences.append(f"node {node.node_id.hex()[:12]}: {error}")
            continue
        bundles += len(answer.bundles)
        wanted = expected.get(node.node_id, set())
        differences += [
            f"node {node.node_id.hex()[:12]}: {d}" for d in _compare(node, answer, wanted)
        ]
    return LedgerReport(len(nodes), bundles, differences)


def _expected_bundles(gcs: GcsCalls) -> dict[bytes, Held]:
    expected: dict[bytes, Held] = {}
    for group in gcs.groups().groups:
        if group.state == groups_pb2.PLACEMENT_GROUP_STATE_REMOVED:
            continue
        for index, node_id in enumerate(group.bundle_nodes):
            if node_id:
                key = (group.spec.placement_group_id.hex(), index)
                expected.setdefault(node_id, set()).add(key)
    return expected


def _compare(
    node: types_pb2.NodeRecord, answer: agent_pb2.CheckLedgerResponse, expected: Held
) -> list[str]:
    differences = list(answer.differences)
    held = {(bundle.placement_group_id.hex(), bundle.index) for bundle in answer.bundles}
    for group, index in sorted(held - expected):
        differences.append(f"holds bundle {index} of group {group}, of which the GCS knows nothing")
    for group, index in sorted(expected - held):
        differences.append(f"does not hold bundle {index} of group {group}, the GCS says it does")
    for what, ours, theirs in (
        ("total", answer.total, node.total),
        ("available", answer.available, node.available),
    ):
        if _plain(ours) != _plain(theirs):
            differences.append(
                f"{what} is {resources.text(_plain(ours))} at the agent, "
                f"{resources.text(_plain(theirs))} at the GCS"
            )
    return differences


def _plain(amounts: types_pb2.ResourceSet) -> resources.Vector:
    """Plain resources only: group resources are the agent's own names for the same amounts."""
    return {
        name: amount
        for name, amount in amounts.amounts.items()
        if amount and not resources.is_group_name(name)
    }
