"""Bundles of placement groups on this node: prepare, commit, cancel, return.

Every command is idempotent by (group, attempt). Attempts of a group are numbered; a cancelled
attempt leaves a tombstone, so a prepare that arrives after its cancel is refused instead of
reserving room that nobody would ever give back.

A bundle that is given back keeps its room until its last process has ended. Meanwhile a later
attempt may hold a bundle of the same index beside it, in other room of the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from cluster_common import resources
from cluster_common.identity_resources import without_identity
from cluster_common.resources import Vector
from raylet_agent import limits
from raylet_agent.core.devices import DeviceShares
from raylet_agent.core.resource_pool import ResourcePool
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
        return grant_key(self.group_id, self.index, self.attempt)


def grant_key(group_id: bytes, index: int, attempt: int) -> bytes:
    """Key of a bundle's grant in the node's pool; longer than any lease id."""
    return b"bundle:" + group_id + index.to_bytes(4, "big") + attempt.to_bytes(8, "big")


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why a command was not carried out: stable token and a sentence."""

    reason: str
    message: str


class BundleTable:
    """All bundles of one node. Leases inside them are the caller's business."""

    def __init__(self, node: ResourcePool) -> None:
        self._node = node
        # By index and attempt. Of each index only the latest attempt may be in use: a prepare has
        # what is older given back before it reserves.
        self._bundles: dict[bytes, dict[tuple[int, int], Bundle]] = {}
        self._cancelled = Tombstones(limits.GROUP_TOMBSTONE_MS, limits.GROUP_TOMBSTONES_MAX)

    def rows(self) -> Iterable[Bundle]:
        """All bundles, by group in order of arrival, by index, by attempt."""
        for group in self._bundles.values():
            for key in sorted(group):
                yield group[key]

    def of_group(self, group_id: bytes) -> list[Bundle]:
        """The group's bundles here, by index and attempt; those being given back included."""
        group = self._bundles.get(group_id, {})
        return [group[key] for key in sorted(group)]

    def _newest(self, group_id: bytes) -> dict[int, Bundle]:
        """Of each index the bundle of the latest attempt: earlier ones are being given back."""
        return {bundle.index: bundle for bundle in self.of_group(group_id)}

    def older_than(self, group_id: bytes, attempt: int, indexes: Sequence[int]) -> list[Bundle]:
        """Bundles that an earlier attempt left and a prepare of `attempt` replaces."""
        newest = self._newest(group_id)
        found = [newest[index] for index in indexes if index in newest]
        return [bundle for bundle in found if bundle.attempt < attempt and not bundle.returning]

    def prepare(
        self, group_id: bytes, attempt: int, wanted: dict[int, Vector], now_ms: int
    ) -> Refusal | None:
        """Reserves all of `wanted` or nothing. What `older_than` names is being given back by now.

        Returns:
            None when all are held under this attempt (a repeat included), else why not.
        """
        cancelled = self._cancelled.get(group_id, now_ms)
        if cancelled is not None and attempt <= cancelled:
            return Refusal(STALE, f"attempt {attempt} was cancelled (newest: {cancelled})")
        newest = self._newest(group_id)
        missing: list[int] = []
        for index in sorted(wanted):
            held = newest.get(index)
            if held is None or held.attempt < attempt:
                assert held is None or held.returning, f"attempt {held.attempt} is kept"
                missing.append(index)
            elif held.attempt > attempt:
                return Refusal(STALE, f"bundle {index} is held by attempt {held.attempt}")
            elif held.returning:
                return Refusal(STALE, f"attempt {attempt} gave bundle {index} back")
        return self._reserve(group_id, attempt, {index: wanted[index] for index in missing})

    def _reserve(self, group_id: bytes, attempt: int, wanted: dict[int, Vector]) -> Refusal | None:
        taken: list[int] = []
        for index, amounts in wanted.items():
            lacks = self._node.lacks(amounts)
            if lacks is not None:
                for undo in taken:
                    self._node.release(grant_key(group_id, undo, attempt))
                message = (
                    f"bundle {index} needs {resources.text(amounts)}, "
                    f"free are {resources.text(without_identity(self._node.available))}"
                )
                return Refusal(lacks, message)
            self._node.take(grant_key(group_id, index, attempt), amounts)
            taken.append(index)
        for index in taken:
            grant = self._node.grants[grant_key(group_id, index, attempt)]
            pool = ResourcePool(wanted[index], _renamed(grant.devices))
            bundle = Bundle(group_id, index, attempt, pool)
            self._bundles.setdefault(group_id, {})[index, attempt] = bundle
        return None

    def commit(self, group_id: bytes, attempt: int, indexes: Sequence[int]) -> Refusal | None:
        """Opens the bundles of an attempt for leases (all of it here when none is named)."""
        newest = self._newest(group_id)
        chosen = list(indexes) or [i for i in sorted(newest) if newest[i].attempt == attempt]
        if not chosen:
            return Refusal(STALE, f"attempt {attempt} holds no bundle here")
        for index in chosen:
            held = newest.get(index)
            if held is None or held.attempt != attempt or held.returning:
                return Refusal(STALE, f"bundle {index} is not prepared by attempt {attempt}")
        for index in chosen:
            newest[index].committed = True
        return None

    def cancelled(self, group_id: bytes, attempt: int, now_ms: int) -> list[Bundle]:
        """Marks an attempt as undone; returns its bundles here, for giving back."""
        self._cancelled.add(group_id, now_ms, attempt)
        return [b for b in self.of_group(group_id) if b.attempt == attempt]

    def release(self, bundle: Bundle) -> Vector:
        """Gives the room back to the node; nothing may run in it any more."""
        assert not bundle.pool.grants, f"bundle {bundle.grant_key.hex()} has leases"
        group = self._bundles[bundle.group_id]
        del group[bundle.index, bundle.attempt]
        if not group:
            del self._bundles[bundle.group_id]
        return self._node.release(bundle.grant_key)


def _renamed(devices: dict[str, DeviceShares]) -> dict[str, DeviceShares]:
    return {name: dict(shares) for name, shares in devices.items()}
