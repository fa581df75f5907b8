"""The agent's stream to the GCS: reconnecting, batched, sent only on change (DESIGN section 7)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import grpc

from cluster_api.v1 import node_session_pb2 as n
from cluster_common.transport import faults
from cluster_common.transport.logs import get_logger
from cluster_common.transport.outbox import Outbox, OutboxOverflowError
from raylet_agent import exit_codes, limits
from raylet_agent.shell.gcs_routes import GcsRoutes
from raylet_agent.shell.host import AgentHost, now_ms
from raylet_agent.shell.session_faults import Released, SessionFaults

log = get_logger()

_RESENT_ITEMS_MAX = 1_000
_RESENT_AGE_S = 30.0
_RESENT = ("owner_ended", "detached_actor")
"""News that no snapshot repeats: told again after a reconnect, a break may have lost them."""


class RefusedByClusterError(RuntimeError):
    """The GCS does not want this node."""


class NodeSession:
    """Keeps the session for as long as the agent lives.

    Args:
        host: the core's host.
        reconnect_timeout_s: after this long without the GCS the agent gives up.
        on_registered: told at each welcome.
        connect: opens a stream, for several agents on one connection; None: channels of its own.
        via: address of an agent that relays the session; the GCS is dialled when that one fails.
    """

    def __init__(
        self,
        host: AgentHost,
        reconnect_timeout_s: float,
        on_registered: Callable[[], None],
        connect: Callable[[], Any] | None = None,
        via: str = "",
    ) -> None:
        self._host = host
        self._reconnect_timeout_s = reconnect_timeout_s
        self._on_registered = on_registered
        self._connect = connect
        self._routes = GcsRoutes(host.core.facts.gcs_address, via)
        self._incarnation = 0
        self._revision = 0
        self._recent: deque[tuple[float, n.AgentItem]] = deque(maxlen=_RESENT_ITEMS_MAX)
        self._outbox: Outbox[n.AgentItem | Released | str] | None = None
        ordered = faults.active()
        self._faults = None if ordered is None else SessionFaults(ordered)
        self._joined = False
        self._leaving = False
        self._broken_here = False
        self._welcome_rest: list[n.GcsItem] = []
        host.keep_for_gcs = self._keep

    async def run(self) -> int:
        """Until the node is refused or the GCS is away for too long; returns the exit code."""
        try:
            return await self._keep_up()
        finally:
            await self._routes.close()

    async def _keep_up(self) -> int:
        backoff_s = limits.GCS_BACKOFF_MIN_S
        lost_at = time.monotonic()
        while True:
            self._joined = False
            try:
                await self._one_session()
            except RefusedByClusterError as error:
                if self._leaving:
                    return exit_codes.OK
                log.error("refused_by_cluster", reason=str(error))  # noqa: TRY400 - the reason is the whole story, no traceback
                self._host.core.refused(f"refused by the GCS: {error}")
                self._host.run_effects()
                return exit_codes.REFUSED
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not self._broken_here or (task is not None and task.cancelling()):
                    raise
                reason = "broken by the agent itself"
            except TimeoutError:
                reason = f"no welcome within {limits.RELAY_WELCOME_S:g} s"
            except (grpc.RpcError, asyncio.InvalidStateError) as error:
                reason = _reason(error)
            else:
                reason = "the GCS closed the session"
            if self._leaving:
                return exit_codes.OK
            if self._joined:
                lost_at, backoff_s = time.monotonic(), limits.GCS_BACKOFF_MIN_S
                log.warning("gcs_session_lost", reason=reason)
            else:
                self._routes.failed(reason)
            if time.monotonic() - lost_at > self._reconnect_timeout_s:
                log.error(
                    "gcs_unreachable",
                    address=self._host.core.facts.gcs_address,
                    seconds=self._reconnect_timeout_s,
                    reason=reason,
                )
                return exit_codes.GCS_UNREACHABLE
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 1.5, limits.GCS_BACKOFF_MAX_S)

    async def say_goodbye(self, goodbye: n.Goodbye) -> None:
        """Tells the GCS that the end is intended, if it can be told at once."""
        self._leaving = True
        outbox = self._outbox
        if outbox is None:
            return
        outbox.put(n.AgentItem(goodbye=goodbye))
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.STOP_GRACE_S / 3):
                await outbox.drained()

    def _break(self, call: Any) -> None:
        """Gives this session up; a local cancel surfaces as CancelledError in whoever reads."""
        self._broken_here = True
        call.cancel()

    async def _one_session(self) -> None:
        core = self._host.core
        self._incarnation += 1
        self._broken_here = False
        call: Any = self._connect() if self._connect else await self._routes.connect()
        self._host.break_gcs = lambda: self._break(call)
        try:
            core.registering(now_ms())
            register = core.registration(self._incarnation, self._revision)
            register.has_relay = self._routes.has_relay
            node_id = core.facts.node_id
            await call.write(n.AgentFrame(items=[n.AgentItem(node_id=node_id, register=register)]))
            async with asyncio.timeout(self._routes.welcome_s):
                first = await self._read(call)
            if first is None:
                return
            self._welcomed(first)
            if self._routes.has_relay:
                await self._serve_watched(call)
            else:
                await self._serve(call)
        finally:
            self._outbox = self._host.gcs = None
            call.cancel()

    def _welcomed(self, frame: n.GcsFrame) -> None:
        item = frame.items[0]
        kind = item.WhichOneof("item")
        if kind == "refused":
            raise RefusedByClusterError(f"{item.refused.reason}: {item.refused.message}")
        if kind != "welcome":
            raise RefusedByClusterError(f"the GCS opened the session with {kind!r}")
        welcome = item.welcome
        self._joined = True
        self._routes.welcomed(welcome.ping_interval_ms)
        self._revision = max(self._revision, welcome.revision)
        self._welcome_rest = list(frame.items[1:])
        self._host.core.welcomed(welcome, now_ms())
        log.info("joined", cluster=welcome.cluster_id.hex(), epoch=welcome.epoch)

    async def _serve(self, call: Any) -> None:
        host = self._host
        node_id = host.core.facts.node_id

        async def write(batch: Sequence[n.AgentItem | Released | str]) -> None:
            items = [self._built(item, node_id) for item in batch]
            leaving = [item for item in items if item is not None]
            if leaving:
                await call.write(n.AgentFrame(items=leaving))

        outbox: Outbox[n.AgentItem | Released | str] = Outbox(write)
        self._outbox = host.gcs = outbox
        horizon = time.monotonic() - _RESENT_AGE_S
        for sent_at, item in self._recent:
            if sent_at >= horizon:
                outbox.put(item)
        outbox.put("snapshot", "snapshot")
        outbox.put("demand", "demand")
        host.run_effects()
        self._on_registered()
        writer = asyncio.get_running_loop().create_task(outbox.run())
        try:
            self._take(self._welcome_rest)
            while True:
                frame = await self._read(call)
                if frame is None:
                    return
                self._take(frame.items)
        finally:
            writer.cancel()
            with suppress(asyncio.CancelledError, grpc.RpcError, asyncio.InvalidStateError):
                await writer

    async def _serve_watched(self, call: Any) -> None:
        watch = asyncio.get_running_loop().create_task(self._watch_route(call))
        try:
            await self._serve(call)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _watch_route(self, call: Any) -> None:
        """Breaks the session when the other route is the better one."""

        def ask() -> None:
            with suppress(OutboxOverflowError):
                self._put(n.AgentItem(ping=n.Ping(nonce=self._incarnation)))

        reason = await self._routes.until_other_is_better(ask)
        log.info("route_to_gcs_changes", reason=reason)
        self._break(call)

    async def _read(self, call: Any) -> n.GcsFrame | None:
        frame = await call.read()
        self._routes.heard()
        if frame is grpc.aio.EOF:
            code = await call.code()
            if code != grpc.StatusCode.OK:
                raise asyncio.InvalidStateError(f"{code.name}: {await call.details()}")
            return None
        return frame

    def _take(self, items: Sequence[n.GcsItem]) -> None:
        host = self._host
        node_id = host.core.facts.node_id
        for item in items:
            if item.node_id and item.node_id != node_id:
                log.warning("item_for_other_node", node=item.node_id.hex())
                continue
            if self._faults is not None and self._faults.order(item, self._take_late, self._put):
                continue
            self._take_one(item)
        host.run_effects()

    def _take_one(self, item: n.GcsItem) -> None:
        kind = item.WhichOneof("item")
        if kind == "refused":
            raise RefusedByClusterError(f"{item.refused.reason}: {item.refused.message}")
        if kind == "ping":
            self._answer_ping(item.ping.nonce)
            return
        if kind == "node_change":
            self._revision = max(self._revision, item.node_change.node.revision)
        self._host.core.gcs_item(item, now_ms())

    def _take_late(self, item: n.GcsItem) -> None:
        """An item that a test had held."""
        self._take_one(item)
        self._host.run_effects()

    def _answer_ping(self, nonce: int) -> None:
        """Answers after one turn of the loop, which tells how late the loop is."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()

        def answer() -> None:
            lag_ms = (loop.time() - asked_s) * 1_000
            self._put(n.AgentItem(ping_answer=n.PingAnswer(nonce=nonce, loop_lag_ms=lag_ms)))

        loop.call_soon(answer)

    def _put(self, item: n.AgentItem | Released) -> None:
        if self._outbox is not None:
            self._outbox.put(item)

    def _built(self, item: n.AgentItem | Released | str, node_id: bytes) -> n.AgentItem | None:
        """Snapshots and demand are built when they leave: always the newest state.

        None: a test holds the item back.
        """
        if isinstance(item, Released):
            assert isinstance(item.item, n.AgentItem)
            return item.item
        if item == "snapshot":
            self._host.core.snapshots.now_ms = now_ms()
            item = n.AgentItem(snapshot=self._host.core.snapshots.build())
        elif item == "demand":
            item = n.AgentItem(demand=self._host.core.snapshots.demand())
        assert isinstance(item, n.AgentItem)
        item.node_id = node_id
        if self._faults is not None and self._faults.report(item, self._put):
            return None
        return item

    def _keep(self, item: n.AgentItem) -> None:
        if item.detached_actor.kind == n.DETACHED_ACTOR_EVENT_KIND_REFUSED:
            return  # what is not held at the registration is asked for again anyway
        if item.WhichOneof("item") in _RESENT:
            self._recent.append((time.monotonic(), item))


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error)
