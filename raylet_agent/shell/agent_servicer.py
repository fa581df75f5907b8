"""AgentService: translates frames into events of the core."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import agent_pb2_grpc
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_api.v1.task_events_pb2 import TaskEventBatch
from cluster_common.transport import faults
from cluster_common.transport.logs import get_logger
from cluster_common.transport.outbox import Outbox
from raylet_agent import limits
from raylet_agent.core import answers
from raylet_agent.core.worker_pool import WorkerState
from raylet_agent.shell.bounds_report import agent_tables
from raylet_agent.shell.host import AgentHost, Stream, now_ms
from raylet_agent.shell.session_faults import Released, SessionFaults
from raylet_agent.shell.streams import first_items, serve_frames
from raylet_agent.shell.task_event_store import TaskEventStore

log = get_logger()


class AgentServicer(agent_pb2_grpc.AgentServiceServicer):
    """One instance per agent. `stop` ends the agent."""

    def __init__(self, host: AgentHost, stop: Callable[[str], None]) -> None:
        self._host = host
        self._stop = stop
        ordered = faults.active()
        self._faults = None if ordered is None else SessionFaults(ordered)
        self._events = TaskEventStore(host.core.facts.node_id)
        self._frames_read = 0
        self._items_read = 0

    async def LeaseSession(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, _requests: object, context: aio.ServicerContext[a.OwnerFrame, a.LeaseFrame]
    ) -> None:
        """One owner's session; the newest of an owner counts."""
        items: Sequence[a.OwnerItem] | None = await first_items(context, "a lease session", "open")
        if items is None:
            return
        opening = items[0].open
        await self._until_joined()
        refusal = self._refusal(opening)
        if refusal is not None:
            await context.write(a.LeaseFrame(items=[a.LeaseItem(refused=refusal)]))
            return
        await self._serve_owner(opening, items[1:], context)

    async def _until_joined(self) -> None:
        """Others hear from the GCS that a node joined while its own welcome is on the way."""
        if not self._host.joined.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(limits.JOIN_WAIT_S):
                    await self._host.joined.wait()

    def _refusal(self, opening: a.OpenOwner) -> n.Refused | None:
        cluster_id = self._host.core.facts.cluster_id
        if not cluster_id:
            return n.Refused(
                reason="bad_request", message="this agent has not joined a cluster yet"
            )
        if opening.cluster_id and opening.cluster_id != cluster_id:
            message = f"this agent belongs to cluster {cluster_id.hex()}"
            return n.Refused(reason="other_cluster", message=message)
        if self._host.core.owners.is_dead(opening.owner_id, now_ms()):
            return answers.declared_dead(opening.owner_id, "")
        return None

    async def _serve_owner(
        self,
        opening: a.OpenOwner,
        rest: Sequence[a.OwnerItem],
        context: aio.ServicerContext[a.OwnerFrame, a.LeaseFrame],
    ) -> None:
        host, owner_id = self._host, opening.owner_id

        async def write(batch: Sequence[Any]) -> None:
            if self._faults is not None:
                batch = self._faults.answered(batch, outbox.put)
            if batch:
                await context.write(a.LeaseFrame(items=batch))

        outbox: Outbox[a.LeaseItem | Released] = Outbox(write)
        earlier = host.sessions.get(owner_id)
        if earlier is not None:
            earlier.end()
        stream = host.sessions[owner_id] = Stream(outbox)
        welcome = host.core.owner_opened(opening, now_ms())
        assert welcome is not None, "a dead owner was refused above"
        outbox.put(a.LeaseItem(welcome=welcome))
        self._owner_items(owner_id, rest)
        try:
            await serve_frames(context, stream, lambda f: self._owner_items(owner_id, f.items))
        finally:
            if host.sessions.get(owner_id) is stream:
                del host.sessions[owner_id]
                host.core.session_lost(owner_id, now_ms())
                host.run_effects()

    def _owner_items(self, owner_id: bytes, items: Sequence[a.OwnerItem]) -> None:
        self._frames_read += 1
        self._items_read += len(items)
        if self._faults is not None:
            items = self._faults.asked(
                items,
                lambda item: self._take(owner_id, [item]),
                lambda item: self._answer(owner_id, item),
            )
        self._take(owner_id, items)

    def _answer(self, owner_id: bytes, item: a.LeaseItem) -> None:
        stream = self._host.sessions.get(owner_id)
        if stream is not None:
            stream.outbox.put(item)

    def _take(self, owner_id: bytes, items: Sequence[a.OwnerItem]) -> None:
        self._host.core.owner_items(owner_id, items, now_ms())
        self._host.run_effects()

    async def WorkerLink(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, _requests: object, context: aio.ServicerContext[a.WorkerFrame, a.WorkerCommandFrame]
    ) -> None:
        """The link of one of our workers."""
        items: Sequence[a.WorkerItem] | None = await first_items(context, "a link", "register")
        if items is None:
            return
        registration = items[0].register
        host, worker_id = self._host, registration.worker_id

        async def write(batch: Sequence[a.WorkerCommand]) -> None:
            await context.write(a.WorkerCommandFrame(items=batch))

        outbox: Outbox[a.WorkerCommand] = Outbox(write)
        stream = Stream(outbox)
        host.links.setdefault(worker_id, stream)
        if host.core.worker_registered(registration, now_ms()) is None:
            if host.links.get(worker_id) is stream:
                del host.links[worker_id]
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                f"worker {worker_id.hex()} is not one this agent waits for",
            )
        host.run_effects()
        self._worker_items(worker_id, items[1:])
        try:
            await serve_frames(context, stream, lambda f: self._worker_items(worker_id, f.items))
        finally:
            del host.links[worker_id]
            self._events.gone(worker_id)
            host.core.link_lost(worker_id, now_ms())
            host.run_effects()

    def _worker_items(self, worker_id: bytes, items: Sequence[a.WorkerItem]) -> None:
        others: list[a.WorkerItem] = []
        for item in items:
            if item.HasField("task_events"):
                self._events.take(worker_id, item.task_events)
            else:
                others.append(item)
        if others:
            self._host.core.worker_items(worker_id, others, now_ms())
            self._host.run_effects()

    async def GetTaskEvents(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, request: a.GetTaskEventsRequest, _context: object
    ) -> AsyncIterator[TaskEventBatch]:
        """What the node's workers did lately."""
        await self._events.collect(self._host.links)
        for batch in self._events.batches(request.job_id):
            yield batch

    async def GetAgentState(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, _request: a.GetAgentStateRequest, _context: object
    ) -> a.GetAgentStateResponse:
        """The node as operators see it, group resources included."""
        core = self._host.core
        loop = asyncio.get_running_loop()
        asked = loop.time()
        await asyncio.sleep(0)
        lag_ms = (loop.time() - asked) * 1000
        rows: list[a.WorkerRow] = []
        for worker in core.pool.rows():
            lease = core.leasing.leases.get(worker.lease_id)
            rows.append(
                a.WorkerRow(
                    worker_id=worker.worker_id,
                    pid=worker.pid,
                    state=WorkerState(worker.state).name.lower(),
                    lease_id=worker.lease_id,
                    owner_id=b"" if lease is None else lease.owner_id,
                    name="" if lease is None else lease.request.name,
                    actor_id=b"" if lease is None else lease.request.actor_id,
                )
            )
        return a.GetAgentStateResponse(
            node_id=core.facts.node_id,
            snapshot=core.snapshots.build(with_groups=True),
            workers=rows,
            bundles=[answers.held_bundle(bundle) for bundle in core.ledger.bundles.rows()],
            queued_leases=len(core.leasing.queue),
            loop_lag_ms=lag_ms,
            counters={
                **core.leasing.counters,
                "workers_started": core.pool.started,
                "worker_start_failures": core.pool.start_failures,
                "node_views": len(core.views),
                "task_events": len(self._events),
                "owner_frames": self._frames_read,
                "owner_items": self._items_read,
                **({} if self._host.environments is None else self._host.environments.counters),
            },
            tables=agent_tables(self._host, self._events),
        )

    async def CheckLedger(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, _request: a.CheckLedgerRequest, _context: object
    ) -> a.CheckLedgerResponse:
        """Sum of grants against the books, per resource and device."""
        ledger = self._host.core.ledger
        differences = ledger.check()
        return a.CheckLedgerResponse(
            ok=not differences,
            differences=differences,
            total=t.ResourceSet(amounts=ledger.totals(with_groups=True, with_identity=True)),
            available=t.ResourceSet(
                amounts=ledger.availables(with_groups=True, with_identity=True)
            ),
            bundles=[answers.held_bundle(bundle) for bundle in ledger.bundles.rows()],
        )

    async def Shutdown(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, request: a.ShutdownRequest, _context: object
    ) -> a.ShutdownResponse:
        """Orderly stop; workers are killed by their group."""
        self._stop(request.reason or "asked over gRPC")
        return a.ShutdownResponse()
