"""Changes of a placement group, as its followers see them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cluster_api.v1 import placement_groups_pb2 as pg


class GroupChange(msgspec.Struct, frozen=True):
    """One change of a group: its state, which bundles were lost and placed, and why."""

    state: str
    lost_bundles: tuple[int, ...]
    placed_bundles: tuple[int, ...]
    cause: str


def state_name(state: int) -> str:
    """`CREATED` of PLACEMENT_GROUP_STATE_CREATED."""
    return pg.PlacementGroupState.Name(state).removeprefix("PLACEMENT_GROUP_STATE_")  # pyright: ignore[reportArgumentType]


class GroupFollower:
    """Turns records into changes.

    Args:
        callback: called with each change.
        last: the record that was told last; without it the first one only sets where we are.
    """

    def __init__(
        self,
        callback: Callable[[GroupChange], None],
        last: pg.PlacementGroupRecord | None = None,
    ) -> None:
        self._callback = callback
        self._nodes = [] if last is None else _placed(last, [])
        self.last = last

    def changed(self, record: pg.PlacementGroupRecord) -> None:
        """Compares with the record before."""
        last, before = self.last, self._nodes
        after = _placed(record, before)
        self.last, self._nodes = record, after
        if last is None:
            return
        lost = tuple(i for i, node in enumerate(before) if node and after[i] != node)
        placed = tuple(
            i for i, node in enumerate(after) if node and (i >= len(before) or before[i] != node)
        )
        if record.state != last.state or lost or placed:
            cause = record.message or record.reason
            self._callback(GroupChange(state_name(record.state), lost, placed, cause))


def _placed(record: pg.PlacementGroupRecord, before: list[bytes]) -> list[bytes]:
    """The node of each bundle that can be used, else b"".

    Bundles that are prepared have a node already, but may lose it before they are committed.
    """
    nodes = list(record.bundle_nodes) or [b""] * len(before)
    if record.state != pg.PLACEMENT_GROUP_STATE_PREPARED:
        return nodes
    return [node if i < len(before) and before[i] == node else b"" for i, node in enumerate(nodes)]
