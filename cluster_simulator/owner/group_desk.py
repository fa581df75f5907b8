"""The one stream on which an owner creates, watches and removes placement groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.gcs_process import GCS_ADDRESS
from cluster_simulator.link import Link
from driver_client import limits
from driver_client.core.bundle_choice import GONE
from gcs_service.core.group_desk import GroupAnswer

if TYPE_CHECKING:
    from cluster_simulator.owner.owner_process import OwnerProcess

_DELAY_MIN_US = round(limits.RECONNECT_DELAY_MIN_S * 1_000_000)
_DELAY_MAX_US = round(limits.RECONNECT_DELAY_MAX_S * 1_000_000)
Listener = Callable[[pg.PlacementGroupRecord], None]


class GroupDesk:
    """Groups as this owner knows them."""

    def __init__(self, owner: OwnerProcess) -> None:
        self._owner = owner
        self.records: dict[bytes, pg.PlacementGroupRecord] = {}
        self._unaccepted: dict[bytes, pg.PlacementGroupSpec] = {}
        self._unremoved: dict[bytes, None] = {}
        self._watched: dict[bytes, None] = {}
        self._listeners: dict[bytes, Listener] = {}
        self._link: Link | None = None
        self._delay_us = _DELAY_MIN_US

    @property
    def is_settled(self) -> bool:
        """Whether everything asked for is durable."""
        return not self._unaccepted and not self._unremoved

    def connect(self) -> None:
        """Opens the stream, first or again: everything the GCS may not have heard is repeated."""
        owner = self._owner
        link = self._link = owner.network.connect("groups", owner, GCS_ADDRESS)
        hello = pg.GroupHello(owner_id=owner.owner_id, job_id=owner.job_id)
        link.send(0, pg.GroupRequest(hello=hello))
        for spec in self._unaccepted.values():
            link.send(0, pg.GroupRequest(create=spec))
        for group_id in self._unremoved:
            link.send(0, pg.GroupRequest(remove=group_id))
        for group_id in self._watched:
            if group_id not in self._unaccepted:
                link.send(0, pg.GroupRequest(watch=group_id))

    def create(self, spec: pg.PlacementGroupSpec, listener: Listener) -> None:
        """Sends a creation; it is repeated until it is durable."""
        group_id = spec.placement_group_id
        self._unaccepted[group_id] = spec
        self._watched[group_id] = None
        self._listeners[group_id] = listener
        if self._link is not None:
            self._link.send(0, pg.GroupRequest(create=spec))

    def remove(self, group_id: bytes) -> None:
        """Sends a removal, in order with the creations."""
        self._unremoved[group_id] = None
        if self._link is not None:
            self._link.send(0, pg.GroupRequest(remove=group_id))

    def state(self, group_id: bytes) -> int:
        """The newest known state."""
        record = self.records.get(group_id)
        return 0 if record is None else record.state

    def close(self) -> None:
        """The owner ends."""
        if self._link is not None:
            self._link.close(0)

    def broken(self, link: Link) -> None:
        """The stream is over; a new one follows."""
        if link is self._link:
            self._link = None
            self._owner.later(self._delay_us, self.connect)
            self._delay_us = min(self._delay_us * 2, _DELAY_MAX_US)

    def arrived(self, link: Link, answers: list[GroupAnswer]) -> None:
        """What the GCS says."""
        if link is not self._link:
            return
        self._delay_us = _DELAY_MIN_US
        for answer in answers:
            if answer.refusal is not None:
                self._refused(answer.refusal)
            elif answer.create_accepted is not None:
                self._unaccepted.pop(answer.create_accepted, None)
            elif answer.removal_accepted is not None:
                self._unremoved.pop(answer.removal_accepted, None)
            elif answer.group is not None:
                self._take(answer.group)

    def _refused(self, refusal: pg.GroupRefusal) -> None:
        group_id = refusal.placement_group_id
        self._unaccepted.pop(group_id, None)
        gone = pg.PlacementGroupRecord(state=pg.PLACEMENT_GROUP_STATE_REMOVED)
        gone.spec.placement_group_id = group_id
        gone.reason, gone.message = refusal.reason, refusal.message
        self._take(gone)

    def _take(self, record: pg.PlacementGroupRecord) -> None:
        group_id = record.spec.placement_group_id
        old = self.records.get(group_id)
        if old is not None and record.version and record.version < old.version:
            return
        self.records[group_id] = record
        if record.state in GONE:
            self._watched.pop(group_id, None)
        listener = self._listeners.get(group_id)
        if listener is not None:
            listener(record)
