"""ActorService: names, owners' reports, detached actors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from grpc import aio

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import types_pb2 as t
from gcs_service.core.moment import Moment
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.service_binding import unless_refused
from gcs_service.shell.session_hub import SessionHub


class ActorService:
    """Each call is one step of the core."""

    def __init__(self, host: CoreHost, hub: SessionHub) -> None:
        self._host = host
        self._core = host.core
        self._hub = hub

    async def register_named_actor(
        self, request: g.RegisterNamedActorRequest
    ) -> g.RegisterNamedActorResponse:
        """Takes a name, or says who has it."""
        desk = self._core.actor_desk
        holder = unless_refused(await self._host.ask(desk.register_named, request.actor))
        return g.RegisterNamedActorResponse(created=holder is None, existing=holder)

    async def create_detached_actor(
        self, request: g.CreateDetachedActorRequest
    ) -> g.CreateDetachedActorResponse:
        """Answers when the creation is durable; `watch_actors` tells the rest."""
        desk = self._core.actor_desk
        holder = unless_refused(await self._host.ask(desk.create_detached, request))
        return g.CreateDetachedActorResponse(created=holder is None, existing=holder)

    async def report_actors(self, request: g.ReportActorsRequest) -> g.ReportActorsResponse:
        """Owners' coalesced records."""
        desk = self._core.actor_desk
        unless_refused(await self._host.ask(desk.report, request.owner_id, list(request.actors)))
        return g.ReportActorsResponse()

    async def get_named_actor(self, request: g.GetNamedActorRequest) -> g.GetNamedActorResponse:
        """Who holds a name now."""

        def answer(_at: Moment) -> t.ActorRecord | None:
            return self._core.actors.by_name(request.namespace, request.name)

        record = await self._host.ask(answer)
        return g.GetNamedActorResponse(found=record is not None, actor=record)

    async def list_named_actors(
        self, request: g.ListNamedActorsRequest
    ) -> g.ListNamedActorsResponse:
        """All names of a namespace, or of all."""

        def answer(_at: Moment) -> list[tuple[str, str]]:
            return self._core.actors.names(None if request.all_namespaces else request.namespace)

        pairs = await self._host.ask(answer)
        names = [g.ActorName(name=name, namespace=namespace) for namespace, name in pairs]
        return g.ListNamedActorsResponse(names=names)

    async def get_actor(self, request: g.GetActorRequest) -> g.GetActorResponse:
        """The newest record."""

        def answer(_at: Moment) -> t.ActorRecord | None:
            return self._core.actors.get(request.actor_id)

        record = await self._host.ask(answer)
        return g.GetActorResponse(found=record is not None, actor=record)

    async def get_all_actors(self, request: g.GetAllActorsRequest) -> g.GetAllActorsResponse:
        """Newest first, filtered."""
        rows, total = await self._host.ask(
            self._core.actor_desk.rows, request.limit, request.job_id, int(request.state)
        )
        return g.GetAllActorsResponse(actors=rows, total=total)

    async def kill_actor(self, request: g.GcsKillActorRequest) -> g.GcsKillActorResponse:
        """Ends a detached actor; others are ended by their owners."""

        def answer(at: Moment) -> bool:
            return self._core.detached.kill(
                request.actor_id, no_restart=request.no_restart, graceful=request.graceful, at=at
            )

        return g.GcsKillActorResponse(found=await self._host.ask(answer))

    async def watch_actors(self, _requests: object, context: aio.ServicerContext[Any, Any]) -> None:
        """States of the actors asked for, as they change."""

        async def write(records: Sequence[t.ActorRecord]) -> None:
            await context.write(g.WatchActorsResponse(actors=records))

        session = self._hub.open(write)
        desk = self._core.actor_desk

        async def receive() -> None:
            while True:
                request = await context.read()
                if request is aio.EOF:
                    return
                if request.actor_ids:
                    self._host.post(desk.watch, session.number, list(request.actor_ids))
                if request.unwatch_actor_ids:
                    unwatch = list(request.unwatch_actor_ids)
                    self._host.post(desk.unwatch, session.number, unwatch)
                await self._host.breathe()

        try:
            await session.run(receive)
        finally:
            self._hub.close(session)
            self._host.post(self._core.session_closed, session.number)
