"""The lease sessions of one owner: carries out what the real routes decide, without gRPC."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_api.v1 import agent_pb2 as a
from cluster_simulator.owner.lease_session import LeaseSession
from driver_client.core import lease_effects as fx
from driver_client.core.asked_lease import AgentSession, AskedLease, LeaseHolder
from driver_client.core.lease_routes import LeaseRoutes

if TYPE_CHECKING:
    from cluster_simulator.owner.owner_process import OwnerProcess


class LeaseDesk:
    """Owner side of leases."""

    def __init__(self, owner: OwnerProcess, home_address: str) -> None:
        self.owner = owner
        self.homes_lost = 0
        self._routes = LeaseRoutes(home_address)
        self._sessions: dict[AgentSession, LeaseSession] = {}
        self._is_carrying_out = False
        self._handlers: dict[type, Callable[[Any], object]] = {
            fx.OpenSession: self._open,
            fx.SendItem: self._send,
            fx.CloseSession: self._close,
            fx.Granted: lambda effect: effect.holder.lease_granted(effect.grant),
            fx.Failed: self._failed,
            fx.Pending: lambda effect: effect.holder.lease_pending(effect.pending),
            fx.Ended: lambda effect: effect.holder.worker_ended(effect.ended),
            fx.Moved: lambda effect: effect.holder.lease_moved(),
            fx.Draining: lambda effect: effect.holder.lease_draining(effect.lease_id),
            fx.LookIfIdle: self._look_if_idle,
            fx.NodeChanged: lambda _effect: None,
            fx.HomeLost: self._home_lost,
            fx.LookAgain: self._look_later,
            # The cluster gave its work to others: such a process has nothing left to do.
            fx.DeclaredDead: lambda _effect: owner.crash(),
        }

    @property
    def leases(self) -> dict[bytes, AskedLease]:
        """Asked for or granted."""
        return self._routes.leases

    def start(self) -> None:
        """Opens the home session."""
        self._routes.open(self._routes.home_address)
        self._carry_out()

    # ---- asking

    def request(
        self, request: a.LeaseRequest, holder: LeaseHolder, address: str | None = None
    ) -> None:
        """Asks for a lease; `address`: the agent that must answer, else home."""
        self._routes.request(request, holder, address or "")
        self._carry_out()

    def give_back(self, lease_id: bytes, *, kill_worker: bool = False, reason: str = "") -> None:
        """Returns a granted lease."""
        self._routes.give_back(lease_id, kill_worker=kill_worker, reason=reason)
        self._carry_out()

    def cancel(self, lease_id: bytes) -> None:
        """Withdraws a request; a grant that crosses it is returned when it comes."""
        self._routes.cancel([lease_id])
        self._carry_out()

    def close(self, reason: str) -> None:
        """The owner ends in order."""
        for agent in self._routes.sessions():
            self._sessions[agent].send(a.OwnerItem(closing=a.OwnerClosing(reason=reason)))
            self._routes.close(agent)
        self._carry_out()

    def move_home(self, address: str) -> None:
        """Another agent answers for this process from now on; what waited is asked there."""
        self._routes.move_home(address)
        self._carry_out()

    # ---- from sessions

    def opening(self, agent: AgentSession) -> a.OpenOwner:
        """First item of a session: who we are and what we hold there."""
        owner = self.owner
        return a.OpenOwner(
            owner_id=owner.owner_id,
            job_id=owner.job_id,
            owner_address=owner.address,
            is_home=agent.address == self._routes.home_address,
            is_driver=True,
            held_lease_ids=self._routes.held_at(agent),
        )

    def item_arrived(self, session: LeaseSession, item: a.LeaseItem) -> None:
        """One item from an agent."""
        routes, agent = self._routes, session.agent
        if item.HasField("welcome"):
            routes.welcomed(agent, item.welcome, again=session.attempts > 1)
        elif item.HasField("refused"):
            routes.refused(agent, item.refused, follows_verdict=True)
        else:
            routes.arrived(agent, item)
        self._carry_out()

    def session_lost(self, agent: AgentSession, *, refused: bool) -> None:
        """The agent cannot be reached: its leases are over."""
        told = f"the agent at {agent.address} cannot be reached"
        self._routes.lost(agent, told, gone=refused)
        self._carry_out()

    # ---- effects

    def _carry_out(self) -> None:
        """What holders ask for meanwhile comes behind what is due already."""
        if self._is_carrying_out:
            return
        effects = self._routes.effects
        self._is_carrying_out = True
        try:
            while effects:
                effect = effects.popleft()
                self._handlers[type(effect)](effect)
        finally:
            self._is_carrying_out = False

    def _open(self, effect: fx.OpenSession) -> None:
        self._sessions = {agent: it for agent, it in self._sessions.items() if not agent.is_over}
        self._sessions[effect.session] = LeaseSession(self, effect.session)

    def _send(self, effect: fx.SendItem) -> None:
        session = self._sessions.get(effect.session)
        if session is not None:
            session.send(effect.item)

    def _close(self, effect: fx.CloseSession) -> None:
        session = self._sessions.get(effect.session)
        if session is not None:
            session.close()

    def _failed(self, effect: fx.Failed) -> None:
        if effect.failed.reason == a.LEASE_FAILURE_OWNER_DEAD:
            self.owner.crash()
        else:
            effect.holder.lease_failed(effect.failed)

    def _look_if_idle(self, effect: fx.LookIfIdle) -> None:
        if effect.holder.lease_idle(effect.lease_id):
            self._routes.give_back(effect.lease_id, reason="others wait")

    def _look_later(self, effect: fx.LookAgain) -> None:
        self.owner.later(effect.delay_ms * 1_000, self._look_again)

    def _look_again(self) -> None:
        self._routes.lost_agents.look_again()
        self._carry_out()

    def _home_lost(self, _effect: fx.HomeLost) -> None:
        self.homes_lost += 1
        self.owner.home_lost()
