"""Sends a lease request of a placement group straight to the agent that holds the bundle."""

from __future__ import annotations

from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import placement_groups_pb2 as pg
from driver_client.core.asked_lease import LeaseHolder
from driver_client.core.bundle_choice import BundleChoice
from driver_client.shell.group_session import GroupSession
from driver_client.shell.io_thread import IoThread
from driver_client.shell.lease_client import LeaseClient


class BundleRouter:
    """Waits with a request until its group has a place."""

    def __init__(self, io: IoThread, groups: Callable[[], GroupSession]) -> None:
        self._io = io
        self._groups = groups
        self._choice = BundleChoice()
        self.leases: LeaseClient | None = None

    def route(
        self, request: pb.LeaseRequest, holder: LeaseHolder, wanted: Callable[[], bool]
    ) -> None:
        """Sends `request` when its group is placed, unless it is not wanted any more by then."""
        record = self._groups().known(request.placement_group_id)
        if not self._sent(request, holder, record):
            self._send_later_on(request, holder, wanted)

    def _send_later_on(
        self, request: pb.LeaseRequest, holder: LeaseHolder, wanted: Callable[[], bool]
    ) -> None:
        self._io.keeper.start(self._send_later(request, holder, wanted), "bundle route")

    async def _send_later(
        self, request: pb.LeaseRequest, holder: LeaseHolder, wanted: Callable[[], bool]
    ) -> None:
        record = await self._groups().until_placed_or_gone(request.placement_group_id)
        if not wanted():
            return
        if record.state == pg.PLACEMENT_GROUP_STATE_CREATED:
            if not self._sent(request, holder, record):
                self._send_later_on(request, holder, wanted)
            return
        group = request.placement_group_id.hex()
        holder.lease_failed(
            pb.LeaseFailed(
                lease_id=request.lease_id,
                reason=pb.LEASE_FAILURE_PLACEMENT_GROUP_REMOVED,
                message=f"placement group {group} was removed",
            )
        )

    def _sent(
        self, request: pb.LeaseRequest, holder: LeaseHolder, record: pg.PlacementGroupRecord | None
    ) -> bool:
        assert self.leases is not None, "the lease client is set before the first request"
        address = self._choice.address(request, record)
        if address:
            self.leases.request(request, holder, address)
        return bool(address)
