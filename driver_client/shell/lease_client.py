"""The lease sessions of this process: carries out what the routes decide (`core.lease_routes`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import node_session_pb2 as ns
from cluster_common.transport.logs import get_logger
from driver_client import limits
from driver_client.core import lease_effects as fx
from driver_client.core.asked_lease import LeaseHolder
from driver_client.core.lease_routes import LeaseRoutes
from driver_client.shell.io_thread import IoThread
from driver_client.shell.lease_session import LeaseSession

log = get_logger()


class LeaseClient:
    """Owner side of leases. Everything runs on the I/O thread."""

    def __init__(
        self,
        io: IoThread,
        home_address: str,
        make_open: Callable[[], pb.OpenOwner],
        *,
        node_changed: Callable[[ns.NodeChange], None],
        home_lost: Callable[[str], None],
    ) -> None:
        self._io = io
        self._make_open = make_open
        self._routes = LeaseRoutes(home_address)
        self._sessions: dict[str, LeaseSession] = {}
        self._opening = asyncio.Semaphore(limits.AGENT_SESSIONS_OPENING_MAX)
        self._answered_at_home = asyncio.Event()
        self._is_carrying_out = False
        self.declared_dead: Callable[[str], None] | None = None
        """Told once when the cluster takes this process for dead; it calls `end_all`."""
        self.refusal = ""
        """What was said when no home agent took this process in."""
        self._handlers: dict[type, Callable[[Any], object]] = {
            fx.OpenSession: self._open,
            fx.SendItem: self._send,
            fx.CloseSession: self._close,
            fx.Granted: lambda effect: effect.holder.lease_granted(effect.grant),
            fx.Failed: lambda effect: effect.holder.lease_failed(effect.failed),
            fx.Pending: lambda effect: effect.holder.lease_pending(effect.pending),
            fx.Ended: lambda effect: effect.holder.worker_ended(effect.ended),
            fx.Moved: lambda effect: effect.holder.lease_moved(),
            fx.Draining: lambda effect: effect.holder.lease_draining(effect.lease_id),
            fx.LookIfIdle: self._look_if_idle,
            fx.NodeChanged: lambda effect: node_changed(effect.change),
            fx.HomeLost: lambda effect: home_lost(effect.message),
            fx.LookAgain: self._look_later,
            fx.DeclaredDead: self._declared_dead,
        }
        self._routes.open(home_address)
        self._carry_out()

    # ---- asking

    def request(
        self, request: pb.LeaseRequest, holder: LeaseHolder, address: str | None = None
    ) -> None:
        """Asks for a lease; `address`: the agent that must answer (a bundle's), else home."""
        if self.verdict:
            reason = pb.LEASE_FAILURE_OWNER_DEAD
            failed = pb.LeaseFailed(lease_id=request.lease_id, reason=reason, message=self.verdict)
            self._io.loop.call_soon(holder.lease_failed, failed)
            return
        self._routes.request(request, holder, address or "")
        self._carry_out()

    def give_back(
        self,
        lease_id: bytes,
        *,
        kill_worker: bool = False,
        reason: str = "",
        graceful: bool = False,
    ) -> None:
        """Returns a granted lease."""
        self._routes.give_back(lease_id, kill_worker=kill_worker, reason=reason, graceful=graceful)
        self._carry_out()

    def cancel(self, lease_ids: list[bytes]) -> None:
        """Withdraws requests; a grant that crosses this on the wire is returned when it comes."""
        self._routes.cancel(lease_ids)
        self._carry_out()

    def tell_backlog(self, address: str, like: pb.LeaseRequest) -> None:
        """How many more requests like this there would be; an agent that is gone forgot it."""
        self._routes.tell_backlog(address, like)
        self._carry_out()

    # ---- what is known

    @property
    def home(self) -> LeaseSession:
        """The session with the home agent; it may be given up already."""
        return self._sessions[self._routes.home_address]

    async def known_at_home(self) -> None:
        """Waits until an agent answers for this process's life.

        Nobody else may hear that it owns something before: if it is killed, only an agent that
        knows it as an owner tells the GCS. Ends too when no agent comes within
        `CONNECT_TIMEOUT_S`; without one a process ends by itself.
        """
        if not await self.let_in(limits.CONNECT_TIMEOUT_S):
            log.warning("not_known_at_home", address=self.home_address)

    async def let_in(self, timeout_s: float) -> bool:
        """Whether a home agent took this process in; waits for its answer, at most so long."""
        if not self._answered_at_home.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._answered_at_home.wait(), timeout_s)
        return self._answered_at_home.is_set() and not self.refusal

    @property
    def home_address(self) -> str:
        """Of the agent that answers for this process's life."""
        return self._routes.home_address

    @property
    def home_schedules(self) -> bool:
        """Whether the home agent is one that keeps requests waiting for any node."""
        welcome = self.home.welcome
        return welcome is not None and welcome.is_scheduler

    @property
    def ever_granted(self) -> bool:
        """Whether any lease was granted."""
        return self._routes.ever_granted

    @property
    def verdict(self) -> str:
        """Why no lease is given to this process any more."""
        return self._routes.verdict

    def where_asked(self, lease_ids: Iterable[bytes]) -> set[str]:
        """The agents that keep these requests waiting."""
        return self._routes.where_asked(lease_ids)

    def has_session(self, address: str) -> bool:
        """Whether there is one that was not given up."""
        return self._routes.session_at(address) is not None

    # ---- ends

    def finishing(self) -> None:
        """The job is being finished: that agents count it as dead from then on is no news."""
        self._routes.is_closing = True

    async def close(self, reason: str) -> None:
        """Says goodbye everywhere: agents end what is leased to this process."""
        sessions = [session for session in self._sessions.values() if not session.lost]
        for session in sessions:
            session.send(pb.OwnerItem(closing=pb.OwnerClosing(reason=reason)))
        open_now = [session for session in sessions if session.welcomed.is_set()]
        # All at once: agents that heard of the end already may have closed their sessions.
        await asyncio.gather(*(each.drained(limits.GOODBYE_S_MAX) for each in open_now))
        for session in sessions:
            session.close()

    def move_home(self, address: str) -> None:
        """Another agent answers for this process from now on; what waited is asked there."""
        self._routes.move_home(address)
        self._carry_out()

    def homeless(self, message: str) -> None:
        """No agent is left: what waited fails."""
        self._routes.homeless(message)
        self._carry_out()

    def end_all(self, verdict: str) -> None:
        """This process counts as dead: whatever it leased is ended, and no agent takes more."""
        self._routes.end_all(verdict)
        self._carry_out()

    # ---- from sessions

    def open_items(self, session: LeaseSession) -> pb.OpenOwner:
        """First item of a session: who we are and what we hold there."""
        opening = self._make_open()
        opening.is_home = session.address == self.home_address
        opening.held_lease_ids.extend(self._routes.held_at(session.agent))
        return opening

    def item_arrived(self, session: LeaseSession, item: pb.LeaseItem) -> None:
        """One item from an agent."""
        if item.HasField("welcome"):
            again = session.attempts > 1
            if session.address == self.home_address:
                self._answered_at_home.set()
            self._routes.welcomed(session.agent, item.welcome, again=again)
        elif item.HasField("refused"):
            self._refused(session, item.refused)
        else:
            self._routes.arrived(session.agent, item)
        self._carry_out()

    def _refused(self, session: LeaseSession, refused: ns.Refused) -> None:
        if not self._routes.is_closing:
            log.error("agent_refused", address=session.address, reason=refused.reason)
        if not self._answered_at_home.is_set():
            self.refusal = refused.message or refused.reason
            self._answered_at_home.set()
        follows = self.declared_dead is not None
        self._routes.refused(session.agent, refused, follows_verdict=follows)

    def session_lost(self, session: LeaseSession, message: str, *, refused: bool) -> None:
        """The agent cannot be reached: its leases are over."""
        if not self._routes.lost_agents.is_known(session.address):
            log.info("agent_lost", address=session.address, why=message, refused=refused)
        node_id = session.agent.node_id
        drained = self._routes.nodes.is_draining(node_id)
        cause = "PREEMPTED" if drained else "CRASHED" if refused else "UNREACHABLE"
        how = "its port refuses connections" if refused else f"it cannot be reached: {message}"
        node = f"node {node_id.hex()} at {session.address}"
        told = f"{node} died ({cause}): {how}; last contact {session.silent_s():.1f} s ago"
        self._routes.lost(session.agent, told, gone=refused)
        self._carry_out()
        self._forget(session)

    # ---- effects

    def _carry_out(self) -> None:
        """What holders ask for meanwhile comes behind what is due already."""
        if self._is_carrying_out:
            return
        effects, handlers = self._routes.effects, self._handlers
        self._is_carrying_out = True
        try:
            while effects:
                effect = effects.popleft()
                handlers[type(effect)](effect)
        finally:
            self._is_carrying_out = False

    def _open(self, effect: fx.OpenSession) -> None:
        agent = effect.session
        self._sessions[agent.address] = LeaseSession(self._io, agent, self, self._opening)

    def _send(self, effect: fx.SendItem) -> None:
        session = self._sessions.get(effect.session.address)
        if session is not None and session.agent is effect.session:
            session.send(effect.item)

    def _close(self, effect: fx.CloseSession) -> None:
        session = self._sessions.get(effect.session.address)
        if session is not None and session.agent is effect.session:
            session.close()
            self._forget(session)

    def _forget(self, session: LeaseSession) -> None:
        is_home = session.address == self.home_address  # it is asked about until there is another
        if not is_home and self._sessions.get(session.address) is session:
            del self._sessions[session.address]

    def _look_if_idle(self, effect: fx.LookIfIdle) -> None:
        if effect.holder.lease_idle(effect.lease_id):
            self._routes.give_back(effect.lease_id, reason="others wait")

    def _look_later(self, effect: fx.LookAgain) -> None:
        self._io.loop.call_later(effect.delay_ms / 1_000, self._look_again)

    def _look_again(self) -> None:
        self._routes.lost_agents.look_again()
        self._carry_out()

    def _declared_dead(self, effect: fx.DeclaredDead) -> None:
        if self.declared_dead is not None:
            self.declared_dead(effect.message)
