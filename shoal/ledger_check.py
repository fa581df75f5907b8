"""Do the books agree? Agents check their own; the GCS's groups are compared with what they hold.

Both sides change while they are read, so a difference counts only if every look within some seconds
finds it: in a busy cluster each look finds others, which the next one does not confirm.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import msgspec

from cluster_api.v1 import agent_pb2, types_pb2
from cluster_api.v1 import placement_groups_pb2 as groups_pb2
from cluster_common import resources
from cluster_common.identity_resources import without_identity
from shoal.gcs_calls import ClusterCallError, GcsCalls, agent_ledger

SETTLE_S = 5.0
"""How long a difference may last while reports are on their way."""

LOOK_AGAIN_S = 0.05
NODES_LISTED_MAX = 1_000_000
"""More than a cluster has: all are compared."""

ASKED_AT_ONCE_MAX = 32
"""Agents that are asked at the same time."""

Held = set[tuple[str, int]]
Differences = dict[tuple[str, ...], str]
"""What is compared -> the sentence about it."""

Look = tuple[int, int, Differences]
"""Nodes, bundles on them, differences."""


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


class _View(msgspec.Struct, frozen=True):
    """What the GCS says of a node: its record, the room it decides by, the bundles it counts on."""

    record: types_pb2.NodeRecord
    room: Mapping[str, int]
    bundles: Held
    all_groups: bool = True
    """False: there are more groups than one answer lists, `bundles` may lack some."""


def settled_report(gcs: GcsCalls, settle_s: float = SETTLE_S) -> LedgerReport:
    """The differences that every look within `settle_s` found; none as soon as none is left."""
    return _settled(lambda: _look(gcs), settle_s)


def _settled(look: Callable[[], Look], settle_s: float) -> LedgerReport:
    end = time.monotonic() + settle_s
    nodes, bundles, lasting = look()
    while lasting and time.monotonic() < end:
        # Nothing tells an outsider when the reports have arrived.
        time.sleep(LOOK_AGAIN_S)
        nodes, bundles, found = look()
        lasting = {what: found[what] for what in lasting if what in found}
    return LedgerReport(nodes, bundles, list(lasting.values()))


def _look(gcs: GcsCalls) -> Look:
    """One comparison of all agents alive with the GCS: nodes, bundles, differences."""
    views = _views(gcs)
    differences: Differences = {}
    bundles = 0
    addresses = [view.record.address for view in views]
    with ThreadPoolExecutor(ASKED_AT_ONCE_MAX) as pool:
        for view, answer in zip(views, pool.map(_asked, addresses), strict=True):
            node = view.record.node_id.hex()[:12]
            if isinstance(answer, ClusterCallError):
                differences[node, "answer"] = f"node {node}: {answer}"
                continue
            bundles += len(answer.bundles)
            for what, text in _compare(view, answer).items():
                differences[node, *what] = f"node {node}: {text}"
    return len(views), bundles, differences


def _asked(address: str) -> agent_pb2.CheckLedgerResponse | ClusterCallError:
    try:
        return agent_ledger(address)
    except ClusterCallError as error:
        return error


def _views(gcs: GcsCalls) -> list[_View]:
    groups = gcs.groups()
    all_groups = len(groups.groups) == groups.total
    expected = _expected_bundles(groups.groups)
    rooms = {
        bytes(state.node_id): dict(state.available_resources.amounts)
        for state in gcs.resource_state().node_states
    }
    return [
        # A node that joined between the two answers has no room yet.
        _View(node, rooms.get(node.node_id, {}), expected.get(node.node_id, set()), all_groups)
        for node in gcs.nodes(alive_only=True, limit=NODES_LISTED_MAX).nodes
    ]


def _expected_bundles(
    groups: Iterable[groups_pb2.PlacementGroupRecord],
) -> dict[bytes, Held]:
    expected: dict[bytes, Held] = {}
    for group in groups:
        if group.state == groups_pb2.PLACEMENT_GROUP_STATE_REMOVED:
            continue
        for index, node_id in enumerate(group.bundle_nodes):
            if node_id:
                key = (group.spec.placement_group_id.hex(), index)
                expected.setdefault(node_id, set()).add(key)
    return expected


def _compare(view: _View, answer: agent_pb2.CheckLedgerResponse) -> Differences:
    differences: Differences = {(text,): text for text in answer.differences}
    held = {(bundle.placement_group_id.hex(), bundle.index) for bundle in answer.bundles}
    for group, index in sorted(held - view.bundles if view.all_groups else ()):
        text = f"holds bundle {index} of group {group}, of which the GCS knows nothing"
        differences["held", group, str(index)] = text
    for group, index in sorted(view.bundles - held):
        text = f"does not hold bundle {index} of group {group}, the GCS says it does"
        differences["not held", group, str(index)] = text
    record = view.record
    for what, ours, theirs in (
        ("total", answer.total.amounts, record.total.amounts),
        ("available", answer.available.amounts, record.available.amounts),
        # Less what was promised and is not covered by a snapshot: a leak would stay here.
        # Of names of nodes it has those that groups asked for.
        (
            "room for groups",
            without_identity(answer.available.amounts),
            without_identity(view.room),
        ),
    ):
        if _plain(ours) != _plain(theirs):
            differences[(what,)] = (
                f"{what} is {resources.text(_plain(ours))} at the agent, "
                f"{resources.text(_plain(theirs))} at the GCS"
            )
    return differences


def _plain(amounts: Mapping[str, int]) -> resources.Vector:
    """Plain resources only: group resources are the agent's own names for the same amounts."""
    return {
        name: amount
        for name, amount in amounts.items()
        if amount and not resources.is_group_name(name)
    }
