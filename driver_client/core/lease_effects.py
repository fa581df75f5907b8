"""What the routes of leases ask their shell to do, in order."""

from __future__ import annotations

import msgspec

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import node_session_pb2 as ns
from driver_client.core.asked_lease import AgentSession, AskedLease, LeaseHolder


class OpenSession(msgspec.Struct, frozen=True, gc=False):
    """Connect to this agent, and stay connected."""

    session: AgentSession


class SendItem(msgspec.Struct, frozen=True, gc=False):
    """Goes to the agent, at the latest after a reconnect."""

    session: AgentSession
    item: pb.OwnerItem


class CloseSession(msgspec.Struct, frozen=True, gc=False):
    """The agent is given up; what it still says does not count."""

    session: AgentSession


class Granted(msgspec.Struct, frozen=True, gc=False):
    """Tell the holder."""

    holder: LeaseHolder
    grant: pb.LeaseGrant


class Failed(msgspec.Struct, frozen=True, gc=False):
    """Tell the holder."""

    holder: LeaseHolder
    failed: pb.LeaseFailed


class Pending(msgspec.Struct, frozen=True, gc=False):
    """Tell the holder."""

    holder: LeaseHolder
    pending: pb.LeasePending


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Tell the holder."""

    holder: LeaseHolder
    ended: pb.LeasedWorkerEnded


class Moved(msgspec.Struct, frozen=True, gc=False):
    """Tell the holder."""

    holder: LeaseHolder


class Draining(msgspec.Struct, frozen=True, gc=False):
    """Tell the holder."""

    holder: LeaseHolder
    lease_id: bytes


class LookIfIdle(msgspec.Struct, frozen=True, gc=False):
    """Ask the holder; if it says so, the lease goes back."""

    holder: LeaseHolder
    lease_id: bytes


class NodeChanged(msgspec.Struct, frozen=True, gc=False):
    """For whoever follows nodes."""

    change: ns.NodeChange


class HomeLost(msgspec.Struct, frozen=True, gc=False):
    """Find another home, then `move_home`; or `homeless`."""

    message: str


class LookAgain(msgspec.Struct, frozen=True, gc=False):
    """Call `look_again` after so long."""

    delay_ms: int


class DeclaredDead(msgspec.Struct, frozen=True, gc=False):
    """The cluster takes this process for dead."""

    message: str


Effect = (
    OpenSession
    | SendItem
    | CloseSession
    | Granted
    | Failed
    | Pending
    | Ended
    | Moved
    | Draining
    | LookIfIdle
    | NodeChanged
    | HomeLost
    | LookAgain
    | DeclaredDead
)


def worker_ended(
    lease: AskedLease, message: str, cause: pb.WorkerEndCause.ValueType, node_id: bytes
) -> Ended:
    """The worker of a granted lease is gone; no agent said so."""
    ended = pb.LeasedWorkerEnded(
        lease_id=lease.request.lease_id, cause=cause, message=message, node_id=node_id
    )
    return Ended(lease.holder, ended)
