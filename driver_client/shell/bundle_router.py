"""Sends a lease request of a placement group straight to the agent that holds the bundle.

The bundle -> node map comes with the group's record, so no scheduler, view or syncer is in the
path.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common import resources
from driver_client.shell.group_session import GroupSession
from driver_client.shell.io_thread import IoThread
from driver_client.shell.lease_client import LeaseClient, LeaseHolder


class BundleRouter:
    """Picks the bundle for requests that name none: round robin over the large enough ones."""

    def __init__(self, io: IoThread, groups: Callable[[], GroupSession]) -> None:
        self._io = io
        self._groups = groups
        self._turn = 0
        self.leases: LeaseClient | None = None

    def route(
        self, request: pb.LeaseRequest, holder: LeaseHolder, wanted: Callable[[], bool]
    ) -> None:
        """Sends `request` when its group is placed, unless it is not wanted any more by then."""
        record = self._groups().known(request.placement_group_id)
        if record is not None and record.state == pg.PLACEMENT_GROUP_STATE_CREATED:
            self._send(request, holder, record)
            return
        self._io.keeper.start(self._send_later(request, holder, wanted), "bundle route")

    async def _send_later(
        self, request: pb.LeaseRequest, holder: LeaseHolder, wanted: Callable[[], bool]
    ) -> None:
        record = await self._groups().until_placed_or_gone(request.placement_group_id)
        if not wanted():
            return
        if record.state == pg.PLACEMENT_GROUP_STATE_CREATED:
            self._send(request, holder, record)
            return
        group = request.placement_group_id.hex()
        holder.lease_failed(
            pb.LeaseFailed(
                lease_id=request.lease_id,
                reason=pb.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED,
                message=f"placement group {group} was removed",
            )
        )

    def _send(
        self, request: pb.LeaseRequest, holder: LeaseHolder, record: pg.PlacementGroupRecord
    ) -> None:
        assert self.leases is not None, "the lease client is set before the first request"
        index = request.bundle_index
        if index < 0:
            index = self._choose(request, record)
        address = record.bundle_addresses[index] if index < len(record.bundle_addresses) else ""
        if not address:
            # Placed, but this bundle is lost just now: wait for the next record.
            self._io.keeper.start(
                self._send_later(request, holder, lambda: True), "bundle route after loss"
            )
            return
        self.leases.request(request, holder, address)

    def _choose(self, request: pb.LeaseRequest, record: pg.PlacementGroupRecord) -> int:
        needed = request.placement_resources.amounts or request.resources.amounts
        fitting = [
            index
            for index, bundle in enumerate(record.spec.bundles)
            if resources.fits(needed, bundle.resources.amounts) and record.bundle_addresses[index]
        ]
        if not fitting:
            return 0
        self._turn += 1
        return fitting[self._turn % len(fitting)]
