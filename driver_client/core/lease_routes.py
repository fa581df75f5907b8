"""Routes each lease request of an owner to the agent that should answer it.

Route (DESIGN section 8): bundles go straight to their agent; everything else to the home agent,
which grants, or names the scheduler, which names a node, which grants or rejects; a rejection goes
back to the scheduler with the nodes that refused.

Pure decisions: what to do is appended to `effects`, which the shell carries out in order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from driver_client.core import lease_effects as fx
from driver_client.core.asked_lease import AgentSession, AskedLease, LeaseHolder
from driver_client.core.known_nodes import KnownNodes, death_text
from driver_client.core.lost_agents import LostAgents

DECLARED_DEAD = "declared_dead"


class LeaseRoutes:
    """Leases, the sessions that answer for them, and what is known of nodes."""

    def __init__(self, home_address: str) -> None:
        self.effects: deque[fx.Effect] = deque()
        self.home_address = home_address
        self.scheduler_address = ""
        self.ever_granted = False
        self.is_closing = False
        """Its job is being finished: that agents count it as dead from then on is no news."""
        self.verdict = ""
        """Why no lease is given to this process any more."""
        self._is_refused = False
        self._is_condemned = False
        """`DeclaredDead` was told. What waits, and what is asked for from now on, hears why from
        `end_all` and nobody else: agents know less of it than whoever calls that."""
        self.leases: dict[bytes, AskedLease] = {}
        """Asked for or granted, in order of asking."""
        self.lost_agents = LostAgents(self.effects, self._ask_again)
        self.nodes = KnownNodes()
        self._sessions: dict[str, AgentSession] = {}
        self._handlers: dict[str, Callable[[AgentSession, Any], None]] = {
            "grant": self._granted,
            "redirect": self._redirected,
            "reject": self._rejected,
            "failed": self._failed,
            "pending": self._pending,
            "worker_ended": self._worker_ended,
            "give_back": self._others_wait,
            "node_change": self._node_change,
        }

    # ---- asking

    def request(self, request: pb.LeaseRequest, holder: LeaseHolder, address: str = "") -> None:
        """Asks for a lease; `address`: the agent that must answer (a bundle's), else home."""
        lease = AskedLease(request, holder)
        self.leases[request.lease_id] = lease
        self._send(lease, address or self.home_address)

    def give_back(
        self,
        lease_id: bytes,
        *,
        kill_worker: bool = False,
        reason: str = "",
        graceful: bool = False,
    ) -> None:
        """Returns a granted lease."""
        lease = self._take(lease_id)
        if lease is None or lease.session is None:
            return
        back = pb.LeaseReturn(
            lease_ids=[lease_id], kill_worker=kill_worker, reason=reason, graceful=graceful
        )
        self._say(lease.session, pb.OwnerItem(return_lease=back))

    def cancel(self, lease_ids: Iterable[bytes]) -> None:
        """Withdraws requests; a grant that crosses this on the wire is returned when it comes."""
        by_session: dict[AgentSession, list[bytes]] = {}
        for lease_id in lease_ids:
            lease = self._take(lease_id)
            if lease is not None and lease.session is not None:
                by_session.setdefault(lease.session, []).append(lease_id)
        for session, group in by_session.items():
            self._say(session, pb.OwnerItem(cancel=pb.LeaseCancel(lease_ids=group)))

    def tell_backlog(self, address: str, like: pb.LeaseRequest) -> None:
        """How many more requests like this there would be; an agent that is gone forgot it."""
        session = self.session_at(address)
        if session is not None:
            self._say(session, pb.OwnerItem(backlog=like))

    # ---- what is known

    def where_asked(self, lease_ids: Iterable[bytes]) -> set[str]:
        """The agents that keep these requests waiting."""
        leases = [self.leases.get(lease_id) for lease_id in lease_ids]
        return {lease.asked for lease in leases if lease is not None}

    def session_at(self, address: str) -> AgentSession | None:
        """The session with this agent that was not given up."""
        session = self._sessions.get(address)
        return None if session is None or session.is_over else session

    def sessions(self) -> list[AgentSession]:
        """Those that were not given up, in order of opening."""
        return [session for session in self._sessions.values() if not session.is_over]

    def held_at(self, session: AgentSession) -> list[bytes]:
        """Leases to name when the session opens."""
        return [lease_id for lease_id, lease in session.leases.items() if lease.granted]

    # ---- sessions

    def open(self, address: str) -> AgentSession:
        """The session with this agent; opened if there is none."""
        session = self.session_at(address)
        if session is None:
            session = self._sessions[address] = AgentSession(address)
            self.effects.append(fx.OpenSession(session))
        return session

    def close(self, session: AgentSession) -> None:
        """Gives the agent up without a word about its leases."""
        if not session.is_over:
            session.is_over = True
            self.effects.append(fx.CloseSession(session))

    def _say(self, session: AgentSession, item: pb.OwnerItem) -> None:
        self.effects.append(fx.SendItem(session, item))

    def _take(self, lease_id: bytes) -> AskedLease | None:
        """Out of the books."""
        lease = self.leases.pop(lease_id, None)
        if lease is not None and lease.session is not None:
            lease.session.leases.pop(lease_id, None)
        return lease

    def _send(self, lease: AskedLease, address: str) -> None:
        if self._is_condemned:
            lease.move(None)
            return
        session = self.open(address)
        lease.move(session)
        self._say(session, pb.OwnerItem(request=lease.request))
        if lease.request.grant_or_reject or lease.asked == address:
            return
        moved = bool(lease.asked)
        lease.asked = address
        if moved:
            self.effects.append(fx.Moved(lease.holder))

    def _send_again(self, lease: AskedLease, address: str) -> None:
        """Another agent, or the same once more: how much waits behind it is another matter now."""
        lease.request.ClearField("backlog")
        self._send(lease, address)

    def _ask_scheduler(self, lease: AskedLease, reject: pb.LeaseReject | None = None) -> None:
        lease.request.grant_or_reject = False
        lease.request.ClearField("sending")
        if reject is not None:
            lease.request.rejection.CopyFrom(reject)
        lease.granted = False
        self._send_again(lease, self.scheduler_address or self.home_address)

    # ---- from agents

    def arrived(self, session: AgentSession, item: pb.LeaseItem) -> None:
        """One item of a session, but for `welcomed` and `refused`.

        What follows in the frame in which the session ended does not count.
        """
        if session.is_over:
            return
        kind = item.WhichOneof("item") or ""
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(session, getattr(item, kind))

    def welcomed(self, session: AgentSession, welcome: pb.AgentWelcome, *, again: bool) -> None:
        """The session opened. `again`: what was sent before may have been lost."""
        session.node_id = welcome.node_id
        self.lost_agents.heard(session.address)
        self._scheduled_by(welcome.scheduler_address)
        for lease_id in welcome.unknown_lease_ids:
            lease = self.leases.get(lease_id)
            if lease is not None:
                why = "the agent does not hold this lease any more"
                self._end(lease_id, lease, why, pb.WORKER_END_CAUSE_CRASHED)
        if not again:
            return
        for lease in list(session.leases.values()):
            if not lease.granted:
                # Idempotent by lease id: a request the agent already has is answered once.
                lease.request.ClearField("backlog")
                self._say(session, pb.OwnerItem(request=lease.request))
                self.effects.append(fx.Moved(lease.holder))

    def refused(self, session: AgentSession, refused: ns.Refused, *, follows_verdict: bool) -> None:
        """The agent wants no session with this process: no agent of this cluster does.

        Args:
            session: it is over.
            refused: why.
            follows_verdict: a `DeclaredDead` is heard, and answered by `end_all`.
        """
        self.close(session)
        if self.is_closing:
            return
        self._is_refused = True
        if refused.reason != DECLARED_DEAD or not follows_verdict:
            self.lost(session, refused.message)
        elif not self._is_condemned:
            self._is_condemned = True
            self.effects.append(fx.DeclaredDead(refused.message))

    def _granted(self, session: AgentSession, grant: pb.LeaseGrant) -> None:
        lease = self.leases.get(grant.lease_id)
        if lease is None:
            unwanted = pb.LeaseReturn(lease_ids=[grant.lease_id], reason="not wanted any more")
            self._say(session, pb.OwnerItem(return_lease=unwanted))
            return
        lease.granted = self.ever_granted = True
        lease.move(session)
        self.effects.append(fx.Granted(lease.holder, grant))

    def _failed(self, _session: AgentSession, failed: pb.LeaseFailed) -> None:
        lease = self._take(failed.lease_id)
        if lease is not None:
            self.effects.append(fx.Failed(lease.holder, failed))

    def _pending(self, _session: AgentSession, pending: pb.LeasePending) -> None:
        lease = self.leases.get(pending.lease_id)
        if lease is not None:
            self.effects.append(fx.Pending(lease.holder, pending))

    def _redirected(self, _session: AgentSession, redirect: pb.LeaseRedirect) -> None:
        lease = self.leases.get(redirect.lease_id)
        if lease is None:
            return
        if self.lost_agents.is_tried(redirect.address):
            self._led_nowhere(lease, redirect)
            return
        lease.request.grant_or_reject = not redirect.to_scheduler
        lease.request.ClearField("rejection")
        if redirect.HasField("counted"):
            lease.request.counted.CopyFrom(redirect.counted)
        if redirect.HasField("sending"):
            lease.request.sending.CopyFrom(redirect.sending)
        if redirect.to_scheduler:
            self.scheduler_address = redirect.address
        self._send_again(lease, redirect.address)

    def _led_nowhere(self, lease: AskedLease, redirect: pb.LeaseRedirect) -> None:
        """Whoever names this agent does not know yet that it cannot be reached."""
        refused_by = lease.request.rejected_by
        told = redirect.to_scheduler or redirect.node_id in refused_by
        if told or not self.lost_agents.is_gone(redirect.address):
            self.lost_agents.wait(lease)
        else:
            refused_by.append(redirect.node_id)
            self._ask_scheduler(lease)

    def _ask_again(self, lease_id: bytes) -> None:
        lease = self.leases.get(lease_id)
        if lease is not None and lease.session is None and not self._is_condemned:
            self._ask_scheduler(lease)

    def _scheduled_by(self, address: str) -> None:
        """This agent picks nodes now (empty: no news)."""
        if address and address != self.scheduler_address:
            self.scheduler_address = address
            if not self.lost_agents.is_known(address):
                self.lost_agents.release()

    def _rejected(self, _session: AgentSession, reject: pb.LeaseReject) -> None:
        lease = self.leases.get(reject.lease_id)
        if lease is None:
            return
        if reject.node_id and reject.node_id not in lease.request.rejected_by:
            lease.request.rejected_by.append(reject.node_id)
        self._ask_scheduler(lease, reject)

    def _worker_ended(self, _session: AgentSession, ended: pb.LeasedWorkerEnded) -> None:
        lease = self._take(ended.lease_id)
        if lease is not None:
            self.effects.append(fx.Ended(lease.holder, ended))

    def _others_wait(self, session: AgentSession, _item: pb.GiveBack) -> None:
        for lease_id, lease in session.leases.items():
            if lease.granted:
                self.effects.append(fx.LookIfIdle(lease.holder, lease_id))

    # ---- losses

    def lost(self, session: AgentSession, message: str, *, gone: bool = False) -> None:
        """The agent cannot be reached: its leases are over. `gone`: its process has ended."""
        session.is_over = True
        if self._sessions.get(session.address) is session:
            del self._sessions[session.address]
        if self._is_condemned:
            return
        was_known = self.lost_agents.is_known(session.address)
        self.lost_agents.lost(session.address, gone=gone)
        is_home = session.address == self.home_address
        if session.address == self.scheduler_address:
            self.scheduler_address = ""  # the home agent hears of the next one
        for lease_id, lease in list(session.leases.items()):
            if lease.granted or lease.request.placement_group_id:
                self._end(lease_id, lease, message, self.nodes.loss_of(session.node_id))
            elif is_home:
                lease.move(None)  # waits for the next home
            elif was_known:
                self.lost_agents.wait(lease)
            else:
                self._ask_scheduler(lease)
        if is_home and self._is_refused:
            self.homeless(message)
        elif is_home:
            self.effects.append(fx.HomeLost(message))

    def move_home(self, address: str) -> None:
        """Another agent answers for this process from now on; what waited is asked there."""
        self.home_address = address
        self.open(address)
        for lease in list(self.leases.values()):
            if lease.session is None:
                self._send_again(lease, address)

    def homeless(self, message: str) -> None:
        """No agent is left: what waited fails."""
        for lease_id, lease in list(self.leases.items()):
            if lease.session is None:
                self._end(lease_id, lease, message, self.nodes.loss_of(b""))

    def end_all(self, verdict: str) -> None:
        """This process counts as dead: whatever it leased is ended, and no agent takes more."""
        self.verdict = verdict
        for session in self.sessions():
            self.close(session)
        for lease_id, lease in list(self.leases.items()):
            cause, failure = pb.WORKER_END_CAUSE_OWNER_DIED, pb.LEASE_FAILURE_OWNER_DEAD
            self._end(lease_id, lease, verdict, cause, failure)

    def _end(
        self,
        lease_id: bytes,
        lease: AskedLease,
        message: str,
        cause: pb.WorkerEndCause.ValueType,
        failure: pb.LeaseFailure.ValueType = pb.LEASE_FAILURE_UNSPECIFIED,
    ) -> None:
        """Ends a lease without an agent's word: its worker is gone, or there will be none."""
        node_id = lease.session.node_id if lease.session is not None else b""
        self._take(lease_id)
        if lease.granted:
            self.effects.append(fx.worker_ended(lease, message, cause, node_id))
            return
        if not failure and lease.request.placement_group_id:
            failure = pb.LEASE_FAILURE_BUNDLE_NOT_HERE
        failed = pb.LeaseFailed(lease_id=lease_id, reason=failure, message=message)
        self.effects.append(fx.Failed(lease.holder, failed))

    # ---- nodes

    def _node_change(self, _session: AgentSession, change: ns.NodeChange) -> None:
        self._scheduled_by(change.scheduler_address)
        node = change.node
        if node.state == t.NODE_STATE_DRAINING:
            self._node_drains(node.node_id)
        elif node.state == t.NODE_STATE_ALIVE:
            self.nodes.stays(node.node_id)
        elif node.state == t.NODE_STATE_DEAD and self.nodes.died(node):
            self._node_died(node)
        self.effects.append(fx.NodeChanged(change))

    def _node_died(self, node: t.NodeRecord) -> None:
        session = self.session_at(node.address)
        if session is not None and session.node_id == node.node_id:
            self.close(session)
            self.lost(session, death_text(node), gone=True)
        self.nodes.stays(node.node_id)

    def _node_drains(self, node_id: bytes) -> None:
        if not self.nodes.drains(node_id):
            return
        for session in self.sessions():
            if session.node_id == node_id:
                for lease_id, lease in session.leases.items():
                    if lease.granted:
                        self.effects.append(fx.Draining(lease.holder, lease_id))
