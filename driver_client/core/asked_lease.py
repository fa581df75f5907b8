"""A lease as its owner knows it, the agent that answers for it, and what its holder is told."""

from __future__ import annotations

from typing import Protocol

from cluster_api.v1 import agent_pb2 as pb


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

    def lease_moved(self) -> None:
        """One of the requests waits with another agent, or with one that was away."""
        ...

    def lease_draining(self, lease_id: bytes) -> None:
        """The node of this granted lease takes no new work."""
        ...

    def lease_idle(self, lease_id: bytes) -> bool:
        """Whether the lease may go back at once since others wait."""
        ...


class AgentSession:
    """One agent, for as long as it is not given up. Compared by identity."""

    __slots__ = ("address", "is_over", "leases", "node_id")

    def __init__(self, address: str) -> None:
        self.address = address
        self.node_id = b""
        """Known from its first welcome."""
        self.is_over = False
        self.leases: dict[bytes, AskedLease] = {}
        """What it answers for: no walk over all agents' leases."""


class AskedLease:
    """One lease, and the agent that answers for it."""

    __slots__ = ("asked", "granted", "holder", "request", "session")

    def __init__(self, request: pb.LeaseRequest, holder: LeaseHolder) -> None:
        self.request = request
        self.holder = holder
        self.session: AgentSession | None = None
        self.granted = False
        self.asked = ""
        """The agent that keeps it waiting if there is no room: one that picked a node does not."""

    def move(self, session: AgentSession | None) -> None:
        """Another agent answers for it (None: nobody yet)."""
        lease_id = self.request.lease_id
        if self.session is not None:
            self.session.leases.pop(lease_id, None)
        self.session = session
        if session is not None:
            session.leases[lease_id] = self
