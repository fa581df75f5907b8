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
    """Turns records into changes."""

    def __init__(self, callback: Callable[[GroupChange], None]) -> None:
        self._callback = callback
        self._last: pg.PlacementGroupRecord | None = None

    def changed(self, record: pg.PlacementGroupRecord) -> None:
        """Compares with the record before; the first one only sets where we are."""
        last, self._last = self._last, record
        if last is None:
            return
        before, after = list(last.bundle_nodes), list(record.bundle_nodes)
        lost = tuple(
            i for i, node in enumerate(before) if node and (i >= len(after) or not after[i])
        )
        placed = tuple(
            i for i, node in enumerate(after) if node and (i >= len(before) or before[i] != node)
        )
        if record.state != last.state or lost or placed:
            cause = record.message or record.reason
            self._callback(GroupChange(state_name(record.state), lost, placed, cause))
