"""Which agent a lease request of a placement group goes to.

The bundle -> node map comes with the group's record, so no scheduler, view or syncer is in the
path.
"""

from __future__ import annotations

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common import resources

GONE = (pg.PLACEMENT_GROUP_STATE_REMOVED, pg.PLACEMENT_GROUP_STATE_REMOVING)


class BundleChoice:
    """For requests that name no bundle: round robin over the large enough ones."""

    def __init__(self) -> None:
        self._turn = 0

    def address(self, request: pb.LeaseRequest, record: pg.PlacementGroupRecord | None) -> str:
        """The agent to ask; "": nobody now, the next record may say more."""
        if record is None or record.state != pg.PLACEMENT_GROUP_STATE_CREATED:
            return ""
        index = request.bundle_index
        if index < 0:
            index = self._choose(request, record)
        addresses = record.bundle_addresses
        return addresses[index] if index < len(addresses) else ""

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
