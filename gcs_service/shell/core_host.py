"""The executor `core`: runs the control core, and carries its effects out in order.

A batch of events is handled, then its effects go through a lane of the `journal`: what follows a
write waits for it. An answer to a question is one of the outputs, so that it leaves after the write
it depends on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.logs import get_logger
from gcs_service import limits
from gcs_service.core import effects as fx
from gcs_service.core.control_core import ControlCore
from gcs_service.core.moment import Moment
from gcs_service.core.tables import Write
from gcs_service.shell import clock
from gcs_service.shell.demand_host import DemandHost
from gcs_service.shell.executor import NamedExecutor
from gcs_service.shell.framed import framed
from gcs_service.shell.journal import Lane
from gcs_service.shell.kv_host import KvHost
from gcs_service.shell.loop_bridge import Output, resolve, resolve_read
from gcs_service.shell.loop_inbox import LoopInbox
from gcs_service.shell.node_broadcast import NodeBroadcast
from gcs_service.shell.reachability import Reachability
from gcs_service.shell.session_hub import SessionHub

log = get_logger()
Result = TypeVar("Result")


class CoreHost:
    """Owner of the core. `ask` and `post` belong to the loop's thread."""

    def __init__(
        self,
        core: ControlCore,
        lane: Lane,
        hub: SessionHub,
        broadcast: NodeBroadcast,
        reachability: Reachability,
        demand: DemandHost,
        kv: KvHost,
    ) -> None:
        self.core = core
        self._lane = lane
        self._hub = hub
        self._broadcast = broadcast
        self._reachability = reachability
        self._demand = demand
        self._answers: list[Output] = []
        self._drains: dict[bytes, list[asyncio.Future[fx.DrainSettled]]] = {}
        self._carriers: dict[type, Callable[[Any], Output]] = {
            fx.Tell: lambda e: (hub.tell, (e.session, framed(e.item), e.key)),
            fx.CloseSession: lambda e: (hub.close_when_sent, (e.session,)),
            fx.LeaveSession: lambda e: (hub.leave, (e.session, e.node_id, e.incarnation)),
            fx.NodeSessionOpened: lambda e: (self._session_opened, (e,)),
            fx.NodeChanged: lambda e: (self._node_changed, (e,)),
            fx.OwnersEnded: lambda e: (broadcast.owners_ended, (e.owner_ids,)),
            fx.ProbeNode: lambda e: (reachability.probe_node, (self, e.node_id, e.address)),
            fx.DrainSettled: lambda e: (self._drain_settled, (e,)),
            fx.ConfirmSilence: lambda e: (self._confirm_silence, (e, clock.now())),
            fx.ForgetPackages: lambda e: (kv.forget_packages, (e.prefix,)),
            fx.ProbeDriver: lambda e: (reachability.probe_driver, (self, e)),
        }
        self.executor = NamedExecutor(
            "core",
            batch_ended=self._carry_out,
            next_deadline_ns=self._next_deadline_ns,
            deadline_reached=self._tick,
        )
        self._inbox = LoopInbox(self.executor)

    def drain_answer(self, node_id: bytes) -> asyncio.Future[fx.DrainSettled]:
        """The agent's next word about a drain. Ask before the drain is ordered; may stay away."""
        future: asyncio.Future[fx.DrainSettled] = asyncio.get_running_loop().create_future()
        waiting = self._drains.setdefault(node_id, [])
        waiting.append(future)
        future.add_done_callback(lambda _: self._drain_heard(node_id, future))
        return future

    def _drain_heard(self, node_id: bytes, future: asyncio.Future[fx.DrainSettled]) -> None:
        waiting = self._drains.get(node_id, [])
        if future in waiting:
            waiting.remove(future)
        if not waiting:
            self._drains.pop(node_id, None)

    def _drain_settled(self, effect: fx.DrainSettled) -> None:
        for future in list(self._drains.get(effect.node_id, ())):
            if not future.done():
                future.set_result(effect)

    def post(self, method: Callable[..., Any], *args: Any) -> None:
        """Calls a method of the core with these arguments and the moment; nobody waits."""
        self._inbox.post(self._call, None, method, args)

    async def ask(self, method: Callable[..., Result], *args: Any) -> Result:
        """As `post`; returns the result when what it wrote is durable."""
        answer: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._inbox.flush()  # what was posted before is handled before
        self.executor.submit(self._call, answer, method, args)
        return await answer

    async def breathe(self) -> None:
        """Waits while we are far behind with what was said, or is to be: for streams, by frame."""
        if self.executor.queue_length > limits.EXECUTOR_QUEUE_ITEMS_MAX:
            await self.ask(_nothing)
        while self._lane.backlog + self._broadcast.backlog > limits.LOOP_OUTPUTS_MAX:
            await self.ask(_nothing)  # the answer comes behind what the core said before

    def _call(
        self, answer: asyncio.Future[Any] | None, method: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        done = self.core.effects_count
        try:
            result = method(*args, clock.now())
        except Exception as error:  # a broken invariant is told, and the asker is not left waiting
            if answer is not None:
                self._answers.append((resolve, (answer, None, error)))
            raise
        if answer is not None:
            wrote = self.core.has_written_since(done)
            self._answers.append((resolve if wrote else resolve_read, (answer, result)))

    def _tick(self) -> None:
        self.core.tick(clock.now())

    def _next_deadline_ns(self) -> int | None:
        deadline_ms = self.core.next_deadline_ms()
        return deadline_ms * 1_000_000 if deadline_ms is not None else None

    def _carry_out(self) -> None:
        writes: list[Write] = []
        outputs: list[Output] = []
        demand = self.core.take_demand(clock.now())
        if demand is not None:
            self._demand.apply(demand)
        for effect in self.core.take_effects(clock.now()):
            if type(effect) is Write:
                if outputs and not writes:
                    # What came before the first write does not depend on it, and need not wait.
                    self._lane.deliver((), outputs)
                    outputs = []
                writes.append(effect)
            else:
                outputs.append(self._carriers[type(effect)](effect))
        outputs += self._answers
        self._answers = []
        if writes or outputs:
            self._lane.deliver(writes, outputs)

    # ---- on the loop

    def _session_opened(self, effect: fx.NodeSessionOpened) -> None:
        self._reachability.stop(effect.record.node_id)
        self._broadcast.opened(effect)

    def _node_changed(self, effect: fx.NodeChanged) -> None:
        record = effect.record
        log.info(
            "node_changed",
            node_id=record.node_id.hex(),
            state=record.state,
            address=record.address,
            cause=record.death_cause,
            message=record.death_message,
        )
        if record.state == t.NODE_STATE_DEAD:
            self._reachability.stop(record.node_id)
        self._broadcast.changed(record, effect.scheduler_address)

    def _confirm_silence(self, effect: fx.ConfirmSilence, sent: Moment) -> None:
        lag_ms = clock.now().mono_ms - sent.mono_ms
        answers = self._reachability.answered(effect.node_id)
        evidence = fx.SilenceEvidence(loop_lag_ms=lag_ms, port_answers=answers)
        self.post(self.core.silence_confirmed, effect.node_id, evidence)


def _nothing(_at: Moment) -> None:
    """What `breathe` asks: the answer comes when everything before it was handled."""
