"""One lease as the agent knows it, from the request to the end of its worker."""

from __future__ import annotations

import enum

import msgspec

from cluster_api.v1 import agent_pb2 as a
from raylet_agent.core.bundles import Bundle
from raylet_agent.core.resource_pool import ResourcePool
from raylet_agent.core.shape import Shape


class LeaseState(enum.IntEnum):
    """How far a lease is.

    WAITING for room; STARTING has room and waits for a worker; GRANTED has both; ENDING was given
    back or killed, its worker has not ended yet and the room is still taken.
    """

    WAITING = 1
    STARTING = 2
    GRANTED = 3
    ENDING = 4


class Lease(msgspec.Struct):
    """State of one lease. `owner_id` is empty for detached actors, whose host is the GCS."""

    lease_id: bytes
    owner_id: bytes
    request: a.LeaseRequest
    shape: Shape
    sequence: int
    """Order of arrival."""
    state: LeaseState = LeaseState.WAITING
    pool: ResourcePool | None = None
    bundle: Bundle | None = None
    worker_id: bytes = b""
    answered_in: int = 0
    """Session of the owner in which the grant was sent."""
    start_failures: int = 0
    blocked: bool = False
    infeasible: bool = False
    excluded: dict[bytes, int] = {}
    """Nodes that rejected it -> version of their view at that moment."""
    counted_since: int = 0
    """Version of the first demand report of this agent that counted it; 0: none does."""
    affinity_deadline_ms: int = 0
    """Until when it waits for word of the unknown node it is bound to; 0: it never had to."""

    @property
    def is_actor(self) -> bool:
        """Whether its worker belongs to one actor and is never reused."""
        return bool(self.request.actor_id)
