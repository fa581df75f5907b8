"""All lease sessions of this process: routes each request to the agent that should answer it.

Route (DESIGN section 8): bundles go straight to their agent; everything else to the home agent,
which grants, or names the scheduler, which names a node, which grants or rejects; a rejection goes
back to the scheduler with the nodes that refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.logs import get_logger
from driver_client.shell.io_thread import IoThread
from driver_client.shell.lease_session import LeaseSession

log = get_logger()


class LeaseHolder(Protocol):
    """Who asked for a lease."""

    def lease_granted(self, grant: pb.LeaseGrant) -> None:
        """A worker is ours."""
        ...

    def lease_failed(self, failed: pb.LeaseFailed) -> None:
        """There will be no worker."""
        ...

    def lease_pending(self, pending: pb.LeasePending) -> None:
        """No room now, or never on the present nodes."""
        ...

    def worker_ended(self, ended: pb.LeasedWorkerEnded) -> None:
        """The leased worker is gone."""
        ...

    def lease_draining(self, lease_id: bytes) -> None:
        """The node of this granted lease takes no new work."""
        ...

    def lease_idle(self, lease_id: bytes) -> bool:
        """Whether the lease may go back at once since others wait."""
        ...


class _Lease:
    __slots__ = ("granted", "holder", "request", "session")

    def __init__(self, request: pb.LeaseRequest, holder: LeaseHolder) -> None:
        self.request = request
        self.holder = holder
        self.session: LeaseSession | None = None
        self.granted = False


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
        self._node_changed = node_changed
        self._home_lost = home_lost
        self._leases: dict[bytes, _Lease] = {}
        self._sessions: dict[str, LeaseSession] = {}
        self._dead_nodes: set[bytes] = set()
        self._draining: set[bytes] = set()
        self.home_address = home_address
        self.scheduler_address = ""
        self.ever_granted = False
        self._is_refused = False
        self.home = self._session(home_address)

    # ---- asking

    def request(
        self, request: pb.LeaseRequest, holder: LeaseHolder, address: str | None = None
    ) -> None:
        """Asks for a lease; `address`: the agent that must answer (a bundle's), else home."""
        lease = _Lease(request, holder)
        self._leases[request.lease_id] = lease
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
        lease = self._leases.pop(lease_id, None)
        if lease is None or lease.session is None:
            return
        lease.session.send(
            pb.OwnerItem(
                return_lease=pb.LeaseReturn(
                    lease_ids=[lease_id], kill_worker=kill_worker, reason=reason, graceful=graceful
                )
            )
        )

    def cancel(self, lease_ids: list[bytes]) -> None:
        """Withdraws requests; a grant that crosses this on the wire is returned when it comes."""
        by_session: dict[LeaseSession, list[bytes]] = {}
        for lease_id in lease_ids:
            lease = self._leases.pop(lease_id, None)
            if lease is not None and lease.session is not None:
                by_session.setdefault(lease.session, []).append(lease_id)
        for session, group in by_session.items():
            session.send(pb.OwnerItem(cancel=pb.LeaseCancel(lease_ids=group)))

    async def close(self, reason: str) -> None:
        """Says goodbye everywhere: agents end what is leased to this process."""
        sessions = [session for session in self._sessions.values() if not session.lost]
        for session in sessions:
            session.send(pb.OwnerItem(closing=pb.OwnerClosing(reason=reason)))
        for session in sessions:
            if session.welcomed.is_set():
                await session.drained(1.0)
            session.close()

    # ---- sessions

    def _session(self, address: str) -> LeaseSession:
        session = self._sessions.get(address)
        if session is None or session.lost:
            session = self._sessions[address] = LeaseSession(self._io, address, self)
        return session

    def _send(self, lease: _Lease, address: str) -> None:
        lease.session = self._session(address)
        lease.session.send(pb.OwnerItem(request=lease.request))

    def open_items(self, session: LeaseSession) -> pb.OpenOwner:
        """First item of a session: who we are and what we hold there."""
        opening = self._make_open()
        opening.is_home = session.address == self.home_address
        held = [
            i for i, lease in self._leases.items() if lease.granted and lease.session is session
        ]
        opening.held_lease_ids.extend(held)
        return opening

    def item_arrived(self, session: LeaseSession, item: pb.LeaseItem) -> None:
        """Dispatch of one item from an agent."""
        kind = item.WhichOneof("item")
        if kind == "grant":
            self._granted(session, item.grant)
        elif kind == "redirect":
            self._redirected(item.redirect)
        elif kind == "reject":
            self._rejected(item.reject)
        elif kind == "failed":
            self._failed(item.failed)
        elif kind == "pending":
            self._pending(item.pending)
        elif kind == "worker_ended":
            self._worker_ended(item.worker_ended)
        elif kind == "give_back":
            self._give_back_idle(session)
        elif kind == "node_change":
            self._node_change(item.node_change)
        elif kind == "welcome":
            self._welcomed(session, item.welcome)
        elif kind == "refused":
            self._refused(session, item.refused)

    def _granted(self, session: LeaseSession, grant: pb.LeaseGrant) -> None:
        lease = self._leases.get(grant.lease_id)
        if lease is None:
            unwanted = pb.LeaseReturn(lease_ids=[grant.lease_id], reason="not wanted any more")
            session.send(pb.OwnerItem(return_lease=unwanted))
            return
        lease.granted = self.ever_granted = True
        lease.session = session
        lease.holder.lease_granted(grant)

    def _failed(self, failed: pb.LeaseFailed) -> None:
        lease = self._leases.pop(failed.lease_id, None)
        if lease is not None:
            lease.holder.lease_failed(failed)

    def _pending(self, pending: pb.LeasePending) -> None:
        lease = self._leases.get(pending.lease_id)
        if lease is not None:
            lease.holder.lease_pending(pending)

    def _redirected(self, redirect: pb.LeaseRedirect) -> None:
        lease = self._leases.get(redirect.lease_id)
        if lease is None:
            return
        lease.request.grant_or_reject = not redirect.to_scheduler
        if redirect.to_scheduler:
            self.scheduler_address = redirect.address
        self._send(lease, redirect.address)

    def _rejected(self, reject: pb.LeaseReject) -> None:
        lease = self._leases.get(reject.lease_id)
        if lease is None:
            return
        if reject.node_id and reject.node_id not in lease.request.rejected_by:
            lease.request.rejected_by.append(reject.node_id)
        self._ask_scheduler(lease)

    def _ask_scheduler(self, lease: _Lease) -> None:
        lease.request.grant_or_reject = False
        lease.granted = False
        self._send(lease, self.scheduler_address or self.home_address)

    def _worker_ended(self, ended: pb.LeasedWorkerEnded) -> None:
        lease = self._leases.pop(ended.lease_id, None)
        if lease is not None:
            lease.holder.worker_ended(ended)

    def _give_back_idle(self, session: LeaseSession) -> None:
        for lease_id, lease in list(self._leases.items()):
            if lease.granted and lease.session is session and lease.holder.lease_idle(lease_id):
                self.give_back(lease_id, reason="others wait")

    def _welcomed(self, session: LeaseSession, welcome: pb.AgentWelcome) -> None:
        if welcome.scheduler_address:
            self.scheduler_address = welcome.scheduler_address
        unknown = set(welcome.unknown_lease_ids)
        for lease_id, lease in list(self._leases.items()):
            if lease_id in unknown:
                self._end_lease(
                    lease_id, lease, "the agent does not hold this lease any more", gone=False
                )
            elif session.welcomes > 1 and lease.session is session and not lease.granted:
                # Idempotent by lease id: a request the agent already has is answered once.
                session.send(pb.OwnerItem(request=lease.request))

    def _refused(self, session: LeaseSession, refused: ns.Refused) -> None:
        log.error("agent_refused", address=session.address, reason=refused.reason)
        session.close()
        # Another agent of this cluster would say the same: nothing to go on with.
        self._is_refused = True
        self._end_session(session, refused.message)

    # ---- losses

    def session_lost(self, session: LeaseSession, message: str, *, refused: bool) -> None:
        """The agent cannot be reached: its leases are over."""
        log.info("agent_lost", address=session.address, why=message, refused=refused)
        drained = session.node_id in self._draining
        cause = "PREEMPTED" if drained else "CRASHED" if refused else "UNREACHABLE"
        how = "its port refuses connections" if refused else f"it cannot be reached: {message}"
        node = f"node {session.node_id.hex()} at {session.address}"
        told = f"{node} died ({cause}): {how}; last contact {session.silent_s():.1f} s ago"
        self._end_session(session, told)

    def _end_session(self, session: LeaseSession, message: str) -> None:
        if self._sessions.get(session.address) is session:
            del self._sessions[session.address]
        is_home = session.address == self.home_address
        if session.address == self.scheduler_address:
            self.scheduler_address = ""  # the home agent hears of the next one
        for lease_id, lease in list(self._leases.items()):
            if lease.session is not session:
                continue
            if lease.granted or lease.request.placement_group_id:
                self._end_lease(lease_id, lease, message, gone=True)
            elif is_home:
                lease.session = None  # waits for the next home
            else:
                self._ask_scheduler(lease)
        if is_home and self._is_refused:
            self.homeless(message)
        elif is_home:
            self._home_lost(message)

    def move_home(self, address: str) -> None:
        """Another agent answers for this process from now on; what waited is asked there."""
        self.home_address = address
        self.home = self._session(address)
        for lease in list(self._leases.values()):
            if lease.session is None:
                self._send(lease, address)

    def homeless(self, message: str) -> None:
        """No agent is left: what waited fails."""
        for lease_id, lease in list(self._leases.items()):
            if lease.session is None:
                self._end_lease(lease_id, lease, message, gone=True)

    def _end_lease(self, lease_id: bytes, lease: _Lease, message: str, *, gone: bool) -> None:
        self._leases.pop(lease_id, None)
        node_id = lease.session.node_id if lease.session else b""
        cause = pb.WORKER_END_CAUSE_CRASHED
        if gone:
            announced = node_id in self._draining
            cause = pb.WORKER_END_CAUSE_PREEMPTED if announced else pb.WORKER_END_CAUSE_NODE_DIED
        if lease.granted:
            lease.holder.worker_ended(
                pb.LeasedWorkerEnded(
                    lease_id=lease_id,
                    cause=cause,
                    message=message,
                    node_id=node_id,
                )
            )
        elif lease.request.placement_group_id:
            lease.holder.lease_failed(
                pb.LeaseFailed(
                    lease_id=lease_id, reason=pb.LEASE_FAILURE_BUNDLE_NOT_HERE, message=message
                )
            )
        else:
            lease.holder.lease_failed(
                pb.LeaseFailed(
                    lease_id=lease_id, reason=pb.LEASE_FAILURE_UNSPECIFIED, message=message
                )
            )

    def _node_change(self, change: ns.NodeChange) -> None:
        if change.scheduler_address:
            self.scheduler_address = change.scheduler_address
        node = change.node
        if node.state == t.NODE_STATE_DRAINING:
            self._node_drains(node.node_id)
        elif node.state == t.NODE_STATE_ALIVE:
            self._draining.discard(node.node_id)
        if node.state == t.NODE_STATE_DEAD and node.node_id not in self._dead_nodes:
            self._dead_nodes.add(node.node_id)
            session = self._sessions.get(node.address)
            if session is not None and session.node_id == node.node_id:
                session.close()
                cause = t.NodeDeathCause.Name(node.death_cause).removeprefix("NODE_DEATH_CAUSE_")
                if node.death_cause == t.NODE_DEATH_CAUSE_PREEMPTED:
                    self._draining.add(node.node_id)
                told = f"node {node.node_id.hex()} died ({cause}): {node.death_message}"
                self._end_session(session, told)
            self._draining.discard(node.node_id)
        self._node_changed(change)

    def _node_drains(self, node_id: bytes) -> None:
        """Told twice, by the node itself and by the GCS; the first counts."""
        if node_id in self._draining or node_id in self._dead_nodes:
            return
        self._draining.add(node_id)
        for lease_id, lease in list(self._leases.items()):
            if lease.granted and lease.session is not None and lease.session.node_id == node_id:
                lease.holder.lease_draining(lease_id)
