"""PlacementGroupService: one stream per process, and a few unary questions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from grpc import aio

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.effects import Refusal
from gcs_service.core.group_desk import GroupAnswer
from gcs_service.core.moment import Moment
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.service_binding import RefusedError, unless_refused
from gcs_service.shell.session_hub import SessionHub

_SETTLED = (pg.PLACEMENT_GROUP_STATE_CREATED, pg.PLACEMENT_GROUP_STATE_REMOVED)


class PlacementGroupService:
    """Routes requests to the core, in the order of the stream."""

    def __init__(self, host: CoreHost, hub: SessionHub) -> None:
        self._host = host
        self._core = host.core
        self._hub = hub

    async def session(self, _requests: object, context: aio.ServicerContext[Any, Any]) -> None:
        """Creates, removals and watches of one process."""
        epoch = self._core.identity.epoch

        async def write(answers: Sequence[GroupAnswer]) -> None:
            await context.write(frame_of(epoch, answers))

        session = self._hub.open(write, size_of=size_of)

        async def receive() -> None:
            while True:
                frame = await context.read()
                if frame is aio.EOF:
                    return
                self._check_cluster(frame.items)
                self._host.post(self._core.group_frame, session.number, list(frame.items))
                await self._host.breathe()

        try:
            await session.run(receive)
        finally:
            self._hub.close(session)
            self._host.post(self._core.session_closed, session.number)

    def _check_cluster(self, items: Sequence[pg.GroupRequest]) -> None:
        own = self._core.identity.cluster_id
        for item in items:
            theirs = item.hello.cluster_id if item.HasField("hello") else b""
            if theirs and theirs != own:
                message = f"this is cluster {own.hex()}, you belong to {theirs.hex()}"
                raise RefusedError(Refusal(fx.OTHER_CLUSTER, message))

    async def get_group(self, request: pg.GetGroupRequest) -> pg.GetGroupResponse:
        """By id, or by name in a namespace."""

        def answer(_at: Moment) -> pg.PlacementGroupRecord | None:
            if request.placement_group_id:
                return self._core.placement.record(request.placement_group_id)
            return self._core.placement.by_name(request.namespace, request.name)

        record = await self._host.ask(answer)
        return pg.GetGroupResponse(found=record is not None, group=record)

    async def get_all_groups(self, request: pg.GetAllGroupsRequest) -> pg.GetAllGroupsResponse:
        """Newest first."""
        limit = min(request.limit or limits.LIST_ROWS_MAX, limits.LIST_ROWS_MAX)

        def answer(_at: Moment) -> pg.GetAllGroupsResponse:
            records = self._core.placement.records()
            return pg.GetAllGroupsResponse(groups=records[:limit], total=len(records))

        return await self._host.ask(answer)

    async def wait_ready(self, request: pg.WaitReadyRequest) -> pg.WaitReadyResponse:
        """Until the group is placed or removed, or the time is over. For tools; processes watch."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        newest: list[pg.PlacementGroupRecord] = []

        async def look(answers: Sequence[GroupAnswer]) -> None:
            for answer in answers:
                if answer.group is not None:
                    newest[:] = [answer.group]
                    if answer.group.state in _SETTLED and not settled.done():
                        settled.set_result(None)

        async def wait() -> None:
            timeout = request.timeout_ms / 1_000 if request.timeout_ms else None
            await asyncio.wait([settled], timeout=timeout)

        session = self._hub.open(look)
        self._host.post(self._core.watch_group, session.number, request.placement_group_id)
        try:
            await session.run(wait)
        finally:
            self._hub.close(session)
            self._host.post(self._core.session_closed, session.number)
        group = newest[0] if newest else None
        ready = group is not None and group.state == pg.PLACEMENT_GROUP_STATE_CREATED
        return pg.WaitReadyResponse(ready=ready, group=group)

    async def explain(self, request: pg.ExplainRequest) -> pg.ExplainResponse:
        """Why a group waits, in counts."""

        def answer(_at: Moment) -> pg.ExplainResponse:
            return self._core.placement.explain(request.placement_group_id)

        return await self._host.ask(answer)

    async def would_fit(self, request: pg.WouldFitRequest) -> pg.ExplainResponse:
        """The same for a group that does not exist; nothing is reserved."""

        def answer(_at: Moment) -> pg.ExplainResponse | Refusal:
            try:
                return self._core.placement.would_fit(request.spec)
            except ValueError as error:  # the spec contradicts itself
                return Refusal(fx.BAD_REQUEST, str(error))

        return unless_refused(await self._host.ask(answer))


def size_of(answer: GroupAnswer) -> int:
    """Bytes of an answer, near enough for the cap of a frame."""
    return answer.group.ByteSize() if answer.group is not None else 100


def frame_of(epoch: int, answers: Sequence[GroupAnswer]) -> pg.GroupAnswerFrame:
    """One frame of many answers."""
    frame = pg.GroupAnswerFrame(epoch=epoch)
    for answer in answers:
        if answer.group is not None:
            frame.groups.append(answer.group)
        elif answer.refusal is not None:
            frame.refusals.append(answer.refusal)
        elif answer.removal_accepted is not None:
            frame.removal_accepted.append(answer.removal_accepted)
        elif answer.create_accepted is not None:
            frame.create_accepted.append(answer.create_accepted)
        elif answer.unknown is not None:
            frame.unknown.append(answer.unknown)
    return frame
