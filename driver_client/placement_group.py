"""Placement groups as users hold them: creating, waiting, removing (CONTRACT: Placement groups)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_common import resources
from driver_client import cluster_view, exceptions, process
from driver_client.core import group_request
from driver_client.group_change import GroupChange, GroupFollower
from driver_client.object_ref import ObjectRef, entry_of
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.objects.entry import Entry
from driver_client.printed_id import PlacementGroupID
from driver_client.shell.group_session import GroupSession

T = TypeVar("T")

_GONE = (pg.PLACEMENT_GROUP_STATE_REMOVED, pg.PLACEMENT_GROUP_STATE_REMOVING)
_EXPLAIN_TIMEOUT_S = 2.0


class PlacementGroup:
    """A handle: cheap to copy and to pickle; equal by id."""

    def __init__(
        self,
        id: bytes | PlacementGroupID,  # noqa: A002 - Ray's name
        bundle_cache: Sequence[Mapping[str, float]] | None = None,
    ) -> None:
        self.id_bytes = id if isinstance(id, bytes) else id.binary()
        self.bundle_cache = None if bundle_cache is None else [dict(each) for each in bundle_cache]
        """None until somebody asks for the bundles: the GCS is asked then."""
        self._told: pg.PlacementGroupRecord | None = None

    @staticmethod
    def empty() -> PlacementGroup:
        """The group that is none."""
        return PlacementGroup(b"", [])

    @property
    def is_empty(self) -> bool:
        """Whether this is the group that is none."""
        return not self.id_bytes

    @property
    def id(self) -> PlacementGroupID:
        """The id, with `hex()`."""
        return PlacementGroupID(self.id_bytes)

    @property
    def bundle_specs(self) -> list[dict[str, float]]:
        """Resources of each bundle."""
        return [dict(bundle) for bundle in self._known_bundles()]

    @property
    def bundle_count(self) -> int:
        """Number of bundles."""
        return len(self._known_bundles())

    def _known_bundles(self) -> list[dict[str, float]]:
        if self.bundle_cache is None:
            self.bundle_cache = _bundles_of(self.id_bytes) if self.id_bytes else []
        return self.bundle_cache

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlacementGroup) and other.id_bytes == self.id_bytes

    def __hash__(self) -> int:
        return hash(self.id_bytes)

    def __repr__(self) -> str:
        return f"PlacementGroup({self.id_bytes.hex()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PlacementGroup, (self.id_bytes, self.bundle_cache)

    # ---- waiting

    def ready(self) -> ObjectRef[PlacementGroup]:
        """A reference that completes with this group when all its bundles are committed.

        A direct question to the GCS: no task, worker or runtime environment is involved. It raises
        PlacementGroupRemovedError when the group is removed instead.
        """
        runtime = process.get_runtime()
        ref, entry = runtime.new_ref()
        entry.group_id = self.id_bytes
        if self.is_empty:
            entry.complete(serialization.dumps(self), entries.VALUE)
            return ref
        known = runtime.group_session_if_any
        record = known.known(self.id_bytes) if known is not None else None
        if record is None or not self._complete(entry, record):
            runtime.io.post(self._watch, entry)
        return ref

    def _watch(self, entry: Entry) -> None:
        session = process.get_runtime().group_session()

        def changed(record: pg.PlacementGroupRecord) -> None:
            if self._complete(entry, record):
                session.unlisten(self.id_bytes, changed)

        session.listen(self.id_bytes, changed)

    def _complete(self, entry: Entry, record: pg.PlacementGroupRecord) -> bool:
        if record.state == pg.PLACEMENT_GROUP_STATE_CREATED:
            entry.complete(serialization.dumps(self), entries.VALUE)
            return True
        if record.state in _GONE:
            entry.complete(exceptions.pickle_error(removed_error(self, record)), entries.ERROR)
            return True
        return False

    def wait(self, timeout_seconds: float = 30) -> bool:
        """Whether the group is ready within the time.

        Raises:
            PlacementGroupRemovedError: it was removed.
        """
        if timeout_seconds < 0:
            raise ValueError(f"timeout_seconds must be 0 or more, not {timeout_seconds}")
        runtime = process.get_runtime()
        entry = entry_of(self.ready())
        if not runtime.blocking.until_count([entry], 1, timeout_seconds):
            return False
        if entry.state == entries.ERROR:
            raise serialization.loads(entry.data)
        return True

    # ---- changes

    def on_change(self, callback: Callable[[GroupChange], None]) -> Callable[[], None]:
        """Calls `callback` at every change, on the I/O thread (keep it short); returns a stop."""
        return self._follow(GroupFollower(callback))

    def _follow(self, follower: GroupFollower) -> Callable[[], None]:
        runtime = process.get_runtime()

        def start() -> None:
            runtime.group_session().listen(self.id_bytes, follower.changed)

        def stop() -> None:
            runtime.io.post(runtime.group_session().unlisten, self.id_bytes, follower.changed)

        runtime.io.post(start)
        return stop

    async def changed(self) -> GroupChange:
        """Waits for the next change; one since this handle's last `changed()` is told at once."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[GroupChange, pg.PlacementGroupRecord | None]]
        future = loop.create_future()

        def tell(change: GroupChange) -> None:
            loop.call_soon_threadsafe(_set_once, future, (change, follower.last))

        follower = GroupFollower(tell, self._told)
        stop = self._follow(follower)
        try:
            change, self._told = await future
        finally:
            stop()
        return change


def _set_once(future: asyncio.Future[T], value: T) -> None:
    if not future.done():
        future.set_result(value)


def removed_error(
    group: PlacementGroup, record: pg.PlacementGroupRecord
) -> exceptions.PlacementGroupRemovedError:
    """Why `ready()` of a removed or refused group raises."""
    text = f"placement group {group.id_bytes.hex()} was removed"
    if record.message:
        text += f": {record.message}"
    return exceptions.PlacementGroupRemovedError(text)


def pending_reason(group_id: bytes) -> tuple[str, str]:
    """(token, sentence) of why a group is not ready, for time-out errors; empty if unknown."""
    runtime = process.get_runtime()

    async def ask() -> pg.ExplainResponse:
        link = runtime.gcs()
        request = pg.ExplainRequest(placement_group_id=group_id)
        return await link.call(
            link.groups.Explain, request, timeout_s=_EXPLAIN_TIMEOUT_S, reconnect_s=0.0
        )

    try:
        answer = runtime.io.call(ask(), _EXPLAIN_TIMEOUT_S)
    except (exceptions.RayError, TimeoutError, ValueError):
        return "", ""
    return answer.reason, answer.message


# ---- making and removing


def create(
    bundles: Any,
    strategy: str | None,
    name: str,
    lifetime: str | None,
    *,
    bundle_label_selector: Any,
    topology_strategy: Any,
    on_loss: str,
    soft_target_node_id: str | None,
) -> PlacementGroup:
    """Checks a request and sends it; unnamed groups do not wait for an answer.

    Raises:
        ValueError: the request contradicts itself, or the name is taken.
    """
    spec = group_request.checked_spec(
        bundles,
        strategy,
        name,
        lifetime,
        bundle_label_selector=bundle_label_selector,
        topology_strategy=topology_strategy,
        on_loss=on_loss,
        soft_target_node_id=soft_target_node_id,
    )
    runtime = process.get_runtime()
    facts = runtime.facts
    spec.placement_group_id = runtime.services.next_id()
    spec.namespace = facts.namespace
    spec.job_id = facts.job_id
    spec.creator_owner_id = facts.owner_id
    spec.creator_actor_id = facts.actor_id
    group = PlacementGroup(spec.placement_group_id, bundles)
    runtime.io.post(lambda: runtime.group_session().create(spec))
    if name or lifetime == "detached":
        refusal = runtime.io.call(_accepted(runtime.group_session, spec.placement_group_id))
        if refusal is not None:
            raise ValueError(f"placement group {name!r}: {refusal.message}")
    return group


async def _accepted(session: Callable[[], GroupSession], group_id: bytes) -> pg.GroupRefusal | None:
    return await session().until_accepted(group_id)


def remove(group: PlacementGroup) -> None:
    """Removes a group, in order with what this process created before."""
    if not isinstance(group, PlacementGroup):
        raise TypeError(f"remove_placement_group takes a PlacementGroup, not {group!r}")
    runtime = process.get_runtime()
    runtime.io.post(runtime.remove_group, group.id_bytes)


def _bundles_of(group_id: bytes) -> list[dict[str, float]]:
    request = pg.GetGroupRequest(placement_group_id=group_id)
    answer = cluster_view.gcs_call(lambda link: link.groups.GetGroup, request)
    if not answer.found:
        raise ValueError(f"there is no placement group {group_id.hex()}")
    return from_record(answer.group).bundle_specs


def from_record(record: pg.PlacementGroupRecord) -> PlacementGroup:
    """The handle of a record."""
    bundles = [resources.floats(bundle.resources.amounts) for bundle in record.spec.bundles]
    return PlacementGroup(record.spec.placement_group_id, bundles)
