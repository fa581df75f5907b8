"""All lease sessions of one owner: the routes of the driver client's lease client, without gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_simulator.link import Link
from driver_client import limits

if TYPE_CHECKING:
    from cluster_simulator.owner.owner_process import OwnerProcess

_CONNECT_US = round(limits.CONNECT_TIMEOUT_S * 1_000_000)
_RECONNECT_US = round(limits.AGENT_RECONNECT_S * 1_000_000)
_DELAY_MIN_US = round(limits.RECONNECT_DELAY_MIN_S * 1_000_000)
_DELAY_MAX_US = round(limits.RECONNECT_DELAY_MAX_S * 1_000_000)


class LeaseHolder(Protocol):
    """Who asked for a lease."""

    def lease_granted(self, grant: a.LeaseGrant) -> None:
        """A worker is ours."""
        ...

    def lease_failed(self, failed: a.LeaseFailed) -> None:
        """There will be no worker."""
        ...

    def worker_ended(self, ended: a.LeasedWorkerEnded) -> None:
        """The leased worker is gone."""
        ...

    def lease_idle(self, lease_id: bytes) -> bool:
        """Whether the lease may go back at once since others wait."""
        ...

    def lease_draining(self, lease_id: bytes) -> None:
        """Its node takes no new work."""
        ...


class Lease:
    """One request, and the session it is asked in."""

    __slots__ = ("granted", "holder", "request", "session")

    def __init__(self, request: a.LeaseRequest, holder: LeaseHolder) -> None:
        self.request = request
        self.holder = holder
        self.session: LeaseSession | None = None
        self.granted = False


class LeaseSession:
    """Keeps itself connected for a while after a break, then reports the loss."""

    def __init__(self, desk: LeaseDesk, address: str) -> None:
        self.desk = desk
        self.address = address
        self.node_id = b""
        self.welcomed = False
        self.welcomes = 0
        self.lost = False
        self._link: Link | None = None
        self._unsent: list[a.OwnerItem] = []
        self._deadline_us = desk.owner.heap.now_us + _CONNECT_US
        self._delay_us = _DELAY_MIN_US
        self._refusals = 0
        self.leases: dict[bytes, Lease] = {}
        self._connect()

    def send(self, item: a.OwnerItem) -> None:
        """Queues an item; what was not sent outlives a reconnect."""
        if self.welcomed and self._link is not None:
            self._link.send(0, item)
        else:
            self._unsent.append(item)

    def close(self) -> None:
        """Ends it without a report."""
        self.lost = True
        if self._link is not None:
            self._link.close(0)

    def _connect(self) -> None:
        if self.lost:
            return
        owner = self.desk.owner
        self.welcomed = False
        self._link = owner.network.connect("lease", owner, self.address)
        self._link.data = None
        owner.lease_links[self._link.number] = self
        opening = self.desk.opening(self)
        self._link.send(0, a.OwnerItem(open=opening))
        story = owner.world.story
        if story.is_on:
            what = "home" if opening.is_home else "work"
            story.note(f"{owner.name} dials {self.address} for {what}", owner.owner_id)

    def arrived(self, items: list[a.LeaseItem]) -> None:
        """What the agent says."""
        for item in items:
            if self.lost:
                return
            if item.HasField("welcome"):
                self.node_id = item.welcome.node_id
                self.welcomed = True
                self.welcomes += 1
                self.desk.item_arrived(self, item)
                unsent, self._unsent = self._unsent, []
                for one in unsent:
                    self.send(one)
            else:
                self.desk.item_arrived(self, item)

    def broken(self) -> None:
        """The stream is over: looks whether the port refuses, tries again."""
        owner = self.desk.owner
        if self.welcomed:
            self._deadline_us = owner.heap.now_us + _RECONNECT_US
            self._delay_us, self._refusals = _DELAY_MIN_US, 0
        self.welcomed = False
        self._link = None
        if not self.lost:
            owner.network.probe(owner, self.address, self._probed)

    def _probed(self, word: str) -> None:
        if self.lost:
            return
        owner = self.desk.owner
        self._refusals = self._refusals + 1 if word == "refused" else 0
        if self._refusals >= 2 or owner.heap.now_us >= self._deadline_us:
            self.lost = True
            self.desk.end_session(self)
            return
        owner.later(self._delay_us, self._connect)
        self._delay_us = min(self._delay_us * 2, _DELAY_MAX_US)


class LeaseDesk:
    """Owner side of leases."""

    def __init__(self, owner: OwnerProcess, home_address: str) -> None:
        self.owner = owner
        self.home_address = home_address
        self.scheduler_address = ""
        self.leases: dict[bytes, Lease] = {}
        self._sessions: dict[str, LeaseSession] = {}
        self._draining: dict[bytes, None] = {}
        self._dead: dict[bytes, None] = {}
        self.homes_lost = 0

    def start(self) -> None:
        """Opens the home session."""
        self._session(self.home_address)

    # ---- asking

    def request(
        self, request: a.LeaseRequest, holder: LeaseHolder, address: str | None = None
    ) -> None:
        """Asks for a lease; `address`: the agent that must answer, else home."""
        lease = Lease(request, holder)
        self.leases[request.lease_id] = lease
        self._send(lease, address or self.home_address)

    def give_back(self, lease_id: bytes, *, kill_worker: bool = False, reason: str = "") -> None:
        """Returns a granted lease."""
        lease = self._pop(lease_id)
        if lease is not None and lease.session is not None:
            back = a.LeaseReturn(lease_ids=[lease_id], kill_worker=kill_worker, reason=reason)
            lease.session.send(a.OwnerItem(return_lease=back))

    def cancel(self, lease_id: bytes) -> None:
        """Withdraws a request; a grant that crosses it is returned when it comes."""
        lease = self._pop(lease_id)
        if lease is not None and lease.session is not None:
            lease.session.send(a.OwnerItem(cancel=a.LeaseCancel(lease_ids=[lease_id])))

    def close(self, reason: str) -> None:
        """The owner ends in order."""
        for session in self._sessions.values():
            if not session.lost:
                session.send(a.OwnerItem(closing=a.OwnerClosing(reason=reason)))
                session.close()

    # ---- sessions

    def _session(self, address: str) -> LeaseSession:
        session = self._sessions.get(address)
        if session is None or session.lost:
            session = self._sessions[address] = LeaseSession(self, address)
        return session

    def _send(self, lease: Lease, address: str) -> None:
        self._move(lease, self._session(address))
        assert lease.session is not None
        lease.session.send(a.OwnerItem(request=lease.request))

    def _move(self, lease: Lease, session: LeaseSession | None) -> None:
        lease_id = lease.request.lease_id
        if lease.session is not None:
            lease.session.leases.pop(lease_id, None)
        lease.session = session
        if session is not None:
            session.leases[lease_id] = lease

    def _pop(self, lease_id: bytes) -> Lease | None:
        lease = self.leases.pop(lease_id, None)
        if lease is not None and lease.session is not None:
            lease.session.leases.pop(lease_id, None)
        return lease

    def opening(self, session: LeaseSession) -> a.OpenOwner:
        """First item of a session: who we are and what we hold there."""
        owner = self.owner
        held = [i for i, lease in session.leases.items() if lease.granted]
        return a.OpenOwner(
            owner_id=owner.owner_id,
            job_id=owner.job_id,
            owner_address=owner.address,
            is_home=session.address == self.home_address,
            is_driver=True,
            held_lease_ids=held,
        )

    def item_arrived(self, session: LeaseSession, item: a.LeaseItem) -> None:
        """One item from an agent."""
        kind = item.WhichOneof("item") or ""
        getattr(self, f"_item_{kind}", _ignored)(session, getattr(item, kind))

    def _item_redirect(self, _session: LeaseSession, redirect: a.LeaseRedirect) -> None:
        lease = self.leases.get(redirect.lease_id)
        if lease is None:
            return
        lease.request.grant_or_reject = not redirect.to_scheduler
        if redirect.to_scheduler:
            self.scheduler_address = redirect.address
        self._send(lease, redirect.address)

    def _item_reject(self, _session: LeaseSession, reject: a.LeaseReject) -> None:
        lease = self.leases.get(reject.lease_id)
        if lease is None:
            return
        if reject.node_id and reject.node_id not in lease.request.rejected_by:
            lease.request.rejected_by.append(reject.node_id)
        self._ask_scheduler(lease)

    def _item_failed(self, _session: LeaseSession, failed: a.LeaseFailed) -> None:
        lease = self._pop(failed.lease_id)
        if failed.reason == a.LEASE_FAILURE_OWNER_DEAD:
            self.owner.crash()
        elif lease is not None:
            lease.holder.lease_failed(failed)

    def _item_worker_ended(self, _session: LeaseSession, ended: a.LeasedWorkerEnded) -> None:
        lease = self._pop(ended.lease_id)
        if lease is not None:
            lease.holder.worker_ended(ended)

    def _item_give_back(self, session: LeaseSession, _item: a.GiveBack) -> None:
        for lease_id, lease in list(session.leases.items()):
            if lease.granted and lease.holder.lease_idle(lease_id):
                self.give_back(lease_id, reason="others wait")

    def _item_refused(self, session: LeaseSession, refused: n.Refused) -> None:
        session.close()
        if refused.reason == "declared_dead":
            # The cluster gave its work to others: such a process has nothing left to do.
            self.owner.crash()
        else:
            self.end_session(session)

    def _item_grant(self, session: LeaseSession, grant: a.LeaseGrant) -> None:
        lease = self.leases.get(grant.lease_id)
        if lease is None:
            back = a.LeaseReturn(lease_ids=[grant.lease_id], reason="not wanted any more")
            session.send(a.OwnerItem(return_lease=back))
            return
        lease.granted = True
        self._move(lease, session)
        lease.holder.lease_granted(grant)

    def _ask_scheduler(self, lease: Lease) -> None:
        lease.request.grant_or_reject = False
        lease.granted = False
        self._send(lease, self.scheduler_address or self.home_address)

    def _item_welcome(self, session: LeaseSession, welcome: a.AgentWelcome) -> None:
        if welcome.scheduler_address:
            self.scheduler_address = welcome.scheduler_address
        unknown = set(welcome.unknown_lease_ids)
        for lease_id, lease in list(session.leases.items()):
            if lease_id in unknown:
                self._end_lease(lease_id, lease, gone=False)
            elif session.welcomes > 1 and not lease.granted:
                session.send(a.OwnerItem(request=lease.request))

    # ---- losses

    def end_session(self, session: LeaseSession) -> None:
        """The agent cannot be reached: its leases are over."""
        if self._sessions.get(session.address) is session:
            del self._sessions[session.address]
        is_home = session.address == self.home_address
        if session.address == self.scheduler_address:
            self.scheduler_address = ""
        for lease_id, lease in list(session.leases.items()):
            if lease.granted or lease.request.placement_group_id:
                self._end_lease(lease_id, lease, gone=True)
            elif is_home:
                self._move(lease, None)
            else:
                self._ask_scheduler(lease)
        if is_home:
            self.homes_lost += 1
            self.owner.home_lost()

    def move_home(self, address: str) -> None:
        """Another agent answers for this process from now on; what waited is asked there."""
        self.home_address = address
        self._session(address)
        for lease in list(self.leases.values()):
            if lease.session is None:
                self._send(lease, address)

    def _end_lease(self, lease_id: bytes, lease: Lease, *, gone: bool) -> None:
        node_id = lease.session.node_id if lease.session else b""
        self._pop(lease_id)
        cause = a.WORKER_END_CAUSE_CRASHED
        if gone:
            announced = node_id in self._draining
            cause = a.WORKER_END_CAUSE_PREEMPTED if announced else a.WORKER_END_CAUSE_NODE_DIED
        if lease.granted:
            lease.holder.worker_ended(
                a.LeasedWorkerEnded(lease_id=lease_id, cause=cause, node_id=node_id)
            )
            return
        in_group = bool(lease.request.placement_group_id)
        reason = a.LEASE_FAILURE_BUNDLE_NOT_HERE if in_group else a.LEASE_FAILURE_UNSPECIFIED
        lease.holder.lease_failed(a.LeaseFailed(lease_id=lease_id, reason=reason))

    def _item_node_change(self, _session: LeaseSession, change: n.NodeChange) -> None:
        if change.scheduler_address:
            self.scheduler_address = change.scheduler_address
        node = change.node
        if node.state == t.NODE_STATE_DRAINING:
            self._node_drains(node.node_id)
        elif node.state == t.NODE_STATE_ALIVE:
            self._draining.pop(node.node_id, None)
        elif node.state == t.NODE_STATE_DEAD and node.node_id not in self._dead:
            self._dead[node.node_id] = None
            session = self._sessions.get(node.address)
            if session is not None and session.node_id == node.node_id:
                session.close()
                if node.death_cause == t.NODE_DEATH_CAUSE_PREEMPTED:
                    self._draining[node.node_id] = None
                self.end_session(session)
            self._draining.pop(node.node_id, None)

    def _node_drains(self, node_id: bytes) -> None:
        if node_id in self._draining or node_id in self._dead:
            return
        self._draining[node_id] = None
        for lease_id, lease in list(self.leases.items()):
            session = lease.session
            if lease.granted and session is not None and session.node_id == node_id:
                lease.holder.lease_draining(lease_id)


def _ignored(_session: LeaseSession, _item: object) -> None:
    """Nothing an owner has to act on (a request is pending)."""
