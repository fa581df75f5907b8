"""Bundles of placement groups on this node: prepare, commit, cancel, return.

Every command is idempotent by (group, attempt). Attempts of a group are numbered; a cancelled
attempt leaves a tombstone, so a prepare that arrives after its cancel is refused instead of
reserving room that nobody would ever give back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cluster_common import resources
from cluster_common.resources import Vector
from raylet_agent import limits
from raylet_agent.core.devices import DeviceShares
from raylet_agent.core.resource_pool import INSUFFICIENT, ResourcePool
from raylet_agent.core.tombstones import Tombstones

STALE = "stale_attempt"


class Bundle(msgspec.Struct):
    """One bundle held here."""

    group_id: bytes
    index: int
    attempt: int
    pool: ResourcePool
    committed: bool = False
    returning: bool = False
    """No new leases; the room is given back when the last worker in it has ended."""

    @property
    def grant_key(self) -> bytes:
        """Its grant in the node's pool."""
        return grant_key(self.group_id, self.index)


def grant_key(group_id: bytes, index: int) -> bytes:
    """Key of a bundle's grant in the node's pool; longer than any lease id."""
    return b"bundle:" + group_id + index.to_bytes(4, "big")


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a command was not carried out: stable token and a sentence."""

    reason: str
    message: str


class BundleTable:
    """All bundles of one node. Leases inside them are the caller's business."""

    def __init__(self, node: ResourcePool) -> None:
        self._node = node
        self._bundles: dict[bytes, dict[int, Bundle]] = {}
        self._cancelled = Tombstones(limits.GROUP_TOMBSTONE_MS, limits.GROUP_TOMBSTONES_MAX)

    def rows(self) -> Iterable[Bundle]:
        """All bundles, by group in order of arrival and by index."""
        for group in self._bundles.values():
            for index in sorted(group):
                yield group[index]

    def of_group(self, group_id: bytes) -> list[Bundle]:
        """The group's bundles here, by index."""
        group = self._bundles.get(group_id, {})
        return [group[index] for index in sorted(group)]

    def get(self, group_id: bytes, index: int) -> Bundle | None:
        """One bundle."""
        return self._bundles.get(group_id, {}).get(index)

    def older_than(self, group_id: bytes, attempt: int, indexes: Sequence[int]) -> list[Bundle]:
        """Bundles that an earlier attempt left and a prepare of `attempt` replaces."""
        group = self._bundles.get(group_id, {})
        return [group[i] for i in indexes if i in group and group[i].attempt < attempt]

    def prepare(
        self, group_id: bytes, attempt: int, wanted: dict[int, Vector], now_ms: int
    ) -> Refusal | None:
        """Reserves all of `wanted` or nothing.

        Returns:
            None when all are held under this attempt (a repeat included), else why not.
        """
        cancelled = self._cancelled.get(group_id, now_ms)
        if cancelled is not None and attempt <= cancelled:
            return Refusal(STALE, f"attempt {attempt} was cancelled (newest: {cancelled})")
        group = self._bundles.get(group_id, {})
        missing: list[int] = []
        for index in sorted(wanted):
            held = group.get(index)
            if held is None:
                missing.append(index)
            elif held.attempt > attempt:
                return Refusal(STALE, f"bundle {index} is held by attempt {held.attempt}")
            elif held.attempt < attempt or held.returning:
                return Refusal(INSUFFICIENT, f"bundle {index} is still being given back")
        taken: list[int] = []
        for index in missing:
            lacks = self._node.lacks(wanted[index])
            if lacks is not None:
                for undo in taken:
                    self._node.release(grant_key(group_id, undo))
                message = (
                    f"bundle {index} needs {resources.text(wanted[index])}, "
                    f"free are {resources.text(self._node.available)}"
                )
                return Refusal(lacks, message)
            self._node.take(grant_key(group_id, index), wanted[index])
            taken.append(index)
        for index in taken:
            grant = self._node.grants[grant_key(group_id, index)]
            pool = ResourcePool(wanted[index], _renamed(grant.devices))
            self._bundles.setdefault(group_id, {})[index] = Bundle(group_id, index, attempt, pool)
        return None

    def commit(self, group_id: bytes, attempt: int, indexes: Sequence[int]) -> Refusal | None:
        """Opens the bundles of an attempt for leases (all of it here when none is named)."""
        group = self._bundles.get(group_id, {})
        chosen = list(indexes) or [i for i in sorted(group) if group[i].attempt == attempt]
        if not chosen:
            return Refusal(STALE, f"attempt {attempt} holds no bundle here")
        for index in chosen:
            held = group.get(index)
            if held is None or held.attempt != attempt or held.returning:
                return Refusal(STALE, f"bundle {index} is not prepared by attempt {attempt}")
        for index in chosen:
            group[index].committed = True
        return None

    def cancelled(self, group_id: bytes, attempt: int, now_ms: int) -> list[Bundle]:
        """Marks an attempt as undone; returns its bundles here, for giving back."""
        self._cancelled.add(group_id, now_ms, attempt)
        return [b for b in self.of_group(group_id) if b.attempt == attempt]

    def release(self, bundle: Bundle) -> Vector:
        """Gives the room back to the node; nothing may run in it any more."""
        assert not bundle.pool.grants, f"bundle {bundle.grant_key.hex()} has leases"
        group = self._bundles[bundle.group_id]
        del group[bundle.index]
        if not group:
            del self._bundles[bundle.group_id]
        return self._node.release(bundle.grant_key)


def _renamed(devices: dict[str, DeviceShares]) -> dict[str, DeviceShares]:
    return {name: dict(shares) for name, shares in devices.items()}
