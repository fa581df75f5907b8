"""NodeService: lists, liveness questions, drain, and the watch with revisions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from grpc import aio

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.effects import Refusal
from gcs_service.core.moment import Moment
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.node_broadcast import NodeBroadcast
from gcs_service.shell.service_binding import RefusedError, unless_refused
from gcs_service.shell.session_hub import SessionHub


class NodeService:
    """Questions go to the core; watches live on the broadcast executor."""

    def __init__(
        self, host: CoreHost, hub: SessionHub, broadcast: NodeBroadcast, version: str
    ) -> None:
        self._host = host
        self._core = host.core
        self._hub = hub
        self._broadcast = broadcast
        self._version = version

    async def get_cluster_info(self, _request: g.GetClusterInfoRequest) -> g.GetClusterInfoResponse:
        """Who this cluster is and whom to ask."""
        return await self._host.ask(self._cluster_info)

    def _cluster_info(self, _at: Moment) -> g.GetClusterInfoResponse:
        identity, nodes = self._core.identity, self._core.membership.nodes
        return g.GetClusterInfoResponse(
            cluster_id=identity.cluster_id,
            epoch=identity.epoch,
            session_name=identity.session_name,
            start_time_ms=identity.start_wall_ms,
            scheduler_address=nodes.scheduler_address(),
            head_address=nodes.head_address(),
            version=self._version,
        )

    async def get_all_nodes(self, request: g.GetAllNodesRequest) -> g.GetAllNodesResponse:
        """Records with the newest numbers."""

        def answer(_at: Moment) -> g.GetAllNodesResponse:
            nodes = self._core.membership.nodes
            rows = nodes.rows(alive_only=request.alive_only, limit=request.limit)
            total = nodes.alive_count + (0 if request.alive_only else nodes.dead_count)
            return g.GetAllNodesResponse(nodes=rows, total=total, revision=nodes.revision)

        return await self._host.ask(answer)

    async def check_alive(self, request: g.CheckAliveRequest) -> g.CheckAliveResponse:
        """One answer per id, in order."""

        def answer(_at: Moment) -> list[bool]:
            nodes = self._core.membership.nodes
            return [nodes.get_alive(node_id) is not None for node_id in request.node_ids]

        return g.CheckAliveResponse(alive=await self._host.ask(answer))

    async def drain_node(self, request: g.DrainNodeRequest) -> g.DrainNodeResponse:
        """Returns when recorded: from now on nothing new is placed there."""
        if request.reason not in (
            ns.DRAIN_REASON_IDLE_TERMINATION,
            ns.DRAIN_REASON_PREEMPTION,
        ):
            allowed = "DRAIN_REASON_IDLE_TERMINATION or DRAIN_REASON_PREEMPTION"
            raise RefusedError(
                Refusal(fx.BAD_REQUEST, f"drain reason {request.reason} is not {allowed}")
            )
        answer = self._host.drain_answer(request.node_id)
        try:
            result = await self._host.ask(
                self._core.drain_node,
                request.node_id,
                request.reason,
                request.message,
                request.deadline_ms,
            )
            if not unless_refused(result):
                return g.DrainNodeResponse(accepted=True, message="the node is out of reach")
            async with asyncio.timeout(limits.DRAIN_ANSWER_MS_MAX / 1_000):
                settled = await answer
        except TimeoutError:
            # A node that is to vanish is marked already; one that may decline did not accept.
            message = "the agent did not answer"
            accepted = request.reason == ns.DRAIN_REASON_PREEMPTION
            if not accepted:
                self._host.post(self._core.withdraw_drain, request.node_id)
            return g.DrainNodeResponse(accepted=accepted, message=message)
        finally:
            answer.cancel()
        return g.DrainNodeResponse(accepted=settled.accepted, message=settled.message)

    async def watch_nodes(
        self, request: g.WatchNodesRequest, context: aio.ServicerContext[Any, Any]
    ) -> None:
        """Changes from a revision on, until the watcher leaves."""

        async def write(answers: Sequence[g.WatchNodesResponse]) -> None:
            for answer in merged(answers):
                await context.write(answer)

        session = self._hub.open(write, newest_last=True)
        self._broadcast.watch(session.number, request.from_revision)
        try:
            await session.run()
        finally:
            self._broadcast.unwatch(session.number)
            self._hub.close(session)


def merged(answers: Sequence[g.WatchNodesResponse]) -> list[g.WatchNodesResponse]:
    """Changes that follow each other as one message; a snapshot stays what it is."""
    out: list[g.WatchNodesResponse] = []
    for answer in answers:
        if out and not answer.snapshot and not out[-1].snapshot:
            if len(out[-1].nodes) == 1:  # built for all watchers: never changed, so copied first
                out[-1] = g.WatchNodesResponse(nodes=out[-1].nodes)
            out[-1].nodes.extend(answer.nodes)
            out[-1].revision = answer.revision
        else:
            out.append(answer)
    return out
