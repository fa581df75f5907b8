"""The task pools of this process, one a scheduling key."""

from __future__ import annotations

import weakref

from driver_client import exceptions
from driver_client.core.call import CallRecord
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.shell.bundle_router import BundleRouter
from driver_client.shell.key_pool import KeyPool
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.owner_services import OwnerServices


class TaskSubmitter:
    """All task pools of this process. I/O thread only."""

    def __init__(self, services: OwnerServices, leases: LeaseClient, router: BundleRouter) -> None:
        self._services = services
        self._leases = leases
        self._router = router
        self._pools: dict[bytes, KeyPool] = {}

    def submit(self, key: SchedulingKey, records: list[CallRecord]) -> None:
        """Queues tasks whose arguments are ready."""
        pool: KeyPool | None = key.pool()
        if pool is None or pool.retired:
            pool = self._pools.get(key.digest)
            if pool is None:
                pool = KeyPool(key, self._services, self._leases, self._router, self._retire)
                self._pools[key.digest] = pool
            key.pool = weakref.ref(pool)
        pool.add(records)

    def group_removed(self, group_id: bytes, error: exceptions.RayError) -> None:
        """This process removed the group: what was to run in it fails now."""
        for pool in list(self._pools.values()):
            if pool.key.request.placement_group_id == group_id:
                pool.fail_queue(error)

    def cancel(self, sequence: int, *, force: bool, recursive: bool) -> bool:
        """Cancels a task; whether it is queued or in flight here."""
        return any(
            pool.cancel(sequence, force=force, recursive=recursive)
            for pool in list(self._pools.values())
        )

    def pending_tasks(self) -> int:
        """Tasks queued or in flight."""
        return sum(pool.task_count() for pool in self._pools.values())

    def _retire(self, pool: KeyPool) -> None:
        self._pools.pop(pool.key.digest, None)
