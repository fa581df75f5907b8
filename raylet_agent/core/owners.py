"""Owners with a session or leases here, and those that died."""

from __future__ import annotations

import msgspec

from cluster_api.v1 import agent_pb2 as a
from raylet_agent import limits
from raylet_agent.core.tombstones import Tombstones


class Owner(msgspec.Struct):
    """One driver or worker that asked for leases. `connected`: has a session now."""

    owner_id: bytes
    job_id: bytes
    address: str
    driver_address: str
    is_home: bool
    is_driver: bool
    log_to_driver: bool
    connected: bool = True
    suspected: bool = False
    """It did not come back in time; the GCS was told."""
    session: int = 1
    """Number of its present session, to answer each request once in each."""
    lease_ids: dict[bytes, None] = {}
    """Its leases here in every state, in order of arrival."""


class OwnerTable:
    """Living owners and tombstones of dead ones."""

    def __init__(self) -> None:
        self._owners: dict[bytes, Owner] = {}
        self._left: list[bytes] = []
        self._dead = Tombstones(limits.OWNER_TOMBSTONE_MS, limits.OWNER_TOMBSTONES_MAX)

    def rows(self) -> list[Owner]:
        """All living owners, in order of arrival."""
        return list(self._owners.values())

    def get(self, owner_id: bytes) -> Owner | None:
        """A living owner."""
        return self._owners.get(owner_id)

    def is_dead(self, owner_id: bytes, now_ms: int) -> bool:
        """Whether it died within the tombstone's time."""
        return self._dead.get(owner_id, now_ms) is not None

    def opened(self, opening: a.OpenOwner) -> Owner:
        """A session begins, or begins anew."""
        owner = self._owners.get(opening.owner_id)
        lease_ids = owner.lease_ids if owner is not None else {}
        session = owner.session + 1 if owner is not None else 1
        owner = Owner(
            owner_id=opening.owner_id,
            job_id=opening.job_id,
            address=opening.owner_address,
            driver_address=opening.driver_address,
            is_home=opening.is_home,
            is_driver=opening.is_driver,
            log_to_driver=opening.log_to_driver,
            session=session,
            lease_ids=lease_ids,
        )
        self._owners[opening.owner_id] = owner
        return owner

    def bury(self, owner_id: bytes, now_ms: int) -> Owner | None:
        """The owner is dead; its row goes, a tombstone stays."""
        self._dead.add(owner_id, now_ms)
        self._left.append(owner_id)
        return self._owners.pop(owner_id, None)

    def forget(self, owner_id: bytes) -> None:
        """The owner left nothing here; no tombstone."""
        self._left.append(owner_id)
        self._owners.pop(owner_id, None)

    @property
    def dead_count(self) -> int:
        """Tombstones."""
        return len(self._dead)

    def take_left(self) -> list[bytes]:
        """Owners that died or were forgotten since the last call."""
        if not self._left:
            return []
        left, self._left = self._left, []
        return left
