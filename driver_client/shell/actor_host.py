"""All actors this process owns, and the clients of all it can call."""

from __future__ import annotations

from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as agent_pb
from cluster_api.v1 import types_pb2 as t
from driver_client import limits
from driver_client.core.actor_spec import ActorSpec
from driver_client.objects.entry import Entry
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.bundle_router import BundleRouter
from driver_client.shell.full_collections import FullCollections
from driver_client.shell.group_session import GroupSession
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.owned_actor import OwnedActor
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.record_reporter import RecordReporter

Watcher = Callable[[t.ActorRecord], None]

_STARTING = (t.ACTOR_STATE_PENDING_CREATION, t.ACTOR_STATE_RESTARTING)


class ActorHost:
    """Owned actors by id. I/O thread only."""

    def __init__(
        self,
        services: OwnerServices,
        leases: LeaseClient,
        router: BundleRouter,
        groups: Callable[[], GroupSession],
        reporter: RecordReporter,
        job_id: bytes,
    ) -> None:
        self.services = services
        self.leases = leases
        self.job_id = job_id
        self.reporter = reporter
        self._router = router
        self._groups = groups
        self._actors: dict[bytes, OwnedActor] = {}
        self._watchers: dict[bytes, list[Watcher]] = {}
        self._ending: dict[bytes, OwnedActor] = {}
        self._collections = FullCollections()

    def close(self) -> None:
        """This process says goodbye: nothing is reported any more."""
        self.reporter.close()
        self._collections.resume()

    def start(self, spec: ActorSpec, entry: Entry, client: ActorClient) -> OwnedActor:
        """Takes a new actor; `arguments_ready` moves it on."""
        actor = OwnedActor(spec, entry, client, self)
        self._actors[spec.actor_id] = actor
        if spec.key.request.placement_group_id:
            self._groups().watch(spec.key.request.placement_group_id)
        return actor

    def get(self, actor_id: bytes) -> OwnedActor | None:
        """An actor of ours, dead ones included while something refers to them."""
        return self._actors.get(actor_id)

    def alive_count(self) -> int:
        """Owned actors that did not end."""
        return sum(not actor.life.is_dead for actor in self._actors.values())

    async def kill(self, actor_id: bytes, *, no_restart: bool, reason: str) -> bool:
        """Kills or restarts an owned actor; when a kill returns, its name is free.

        Returns:
            Whether it is ours.
        """
        actor = self._actors.get(actor_id)
        if actor is None:
            return False
        if not no_restart:
            actor.restart(reason)
            return True
        actor.end(t.ACTOR_DEATH_CAUSE_KILLED, reason)
        if actor.spec.name:
            await self.reporter.flushed(limits.GCS_CALL_TIMEOUT_S)
        return True

    def group_removed(self, group_id: bytes) -> None:
        """This process removed the group: actors in it are dead now, restartable ones too."""
        for actor in list(self._actors.values()):
            if actor.spec.key.request.placement_group_id == group_id:
                cause = t.ACTOR_DEATH_CAUSE_PLACEMENT_GROUP_REMOVED
                actor.end(cause, "its placement group was removed by its user")

    def out_of_scope(self, entry: Entry) -> None:
        """The last handle went: the actor ends when what was called is answered."""
        actor = self._actors.get(entry.actor)
        if actor is None:
            return
        if actor.client.outstanding <= 0 or actor.life.is_dead:
            self._end_unreferenced(actor)
        else:
            actor.client.on_idle = lambda: self._end_unreferenced(actor)

    def _end_unreferenced(self, actor: OwnedActor) -> None:
        actor.client.on_idle = None
        actor.end(t.ACTOR_DEATH_CAUSE_OUT_OF_SCOPE, "no handle is left", graceful=True)
        self._actors.pop(actor.spec.actor_id, None)
        self._watchers.pop(actor.spec.actor_id, None)

    # ---- HostTools

    def route(
        self, request: agent_pb.LeaseRequest, holder: OwnedActor, wanted: Callable[[], bool]
    ) -> None:
        """Sends a lease request to the bundle's agent."""
        self._router.route(request, holder, wanted)

    def group_state(self, group_id: bytes) -> int:
        """The newest known state of a group, 0 if none is known."""
        record = self._groups().known(group_id)
        return record.state if record is not None else 0

    def publish(self, actor: OwnedActor) -> None:
        """Tells watchers and, in batches, the GCS."""
        self.reporter.changed(actor)
        self._collections.note(actor.spec.actor_id, starting=actor.life.state in _STARTING)
        watchers = self._watchers.get(actor.spec.actor_id)
        if watchers:
            record = actor.record()
            for watcher in list(watchers):
                watcher(record)

    # ---- watchers from other processes

    def watch(self, actor_id: bytes, watcher: Watcher) -> bool:
        """Tells `watcher` the present and every later record; whether the actor is ours."""
        actor = self._actors.get(actor_id)
        if actor is None:
            return False
        self._watchers.setdefault(actor_id, []).append(watcher)
        watcher(actor.record())
        return True

    def unwatch(self, actor_id: bytes, watcher: Watcher) -> None:
        """Ends `watch`."""
        watchers = self._watchers.get(actor_id)
        if watchers is not None and watcher in watchers:
            watchers.remove(watcher)
            if not watchers:
                del self._watchers[actor_id]
