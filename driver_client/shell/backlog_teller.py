"""Tells the agent where a pool's lease requests wait how many more tasks there are (DESIGN §14).

A pool keeps few requests open, so that the agent's queue shows a part of what it wants. The rest is
told as one number: by each request, in which a task moves from that number to the agent's queue, so
that the sum is exact; and, when tasks come or end, at most every `BACKLOG_TOLD_MS`.
"""

from __future__ import annotations

import asyncio

from cluster_api.v1 import agent_pb2 as pb
from driver_client import limits
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.core.task_pool import TaskPool
from driver_client.shell.lease_client import LeaseClient

_UNKNOWN = -1


class BacklogTeller:
    """The number of one pool. `number` names the pool among those of this owner."""

    def __init__(
        self, key: SchedulingKey, number: int, pool: TaskPool, leases: LeaseClient
    ) -> None:
        self._key = key
        self._number = number
        self._pool = pool
        self._leases = leases
        self._told = 0
        self._told_to = ""
        self._timer: asyncio.TimerHandle | None = None
        # Work in a group is no demand of its own: the group has its room.
        self._is_demand = not key.request.placement_group_id

    def stamp(self, request: pb.LeaseRequest) -> str | None:
        """Puts the number into a request that is open from now on.

        Returns:
            The agent to ask: where this pool's requests wait already, None for home.
        """
        if self._leases.home_schedules:
            self._told_to = self._leases.home_address
        elif not self._leases.has_session(self._told_to):
            return None  # who is going to keep requests waiting is not known yet
        count = self._pool.backlog()
        if count or self._told:
            request.backlog.key = self._number
            request.backlog.count = self._told = count
        return self._told_to

    def changed(self) -> None:
        """Tasks came or went; cheap, since it is called for each batch of them."""
        if self._timer is not None or not self._is_demand:
            return
        if self._told or len(self._pool.queue) != len(self._pool.requested):
            self._tell_later()

    def moved(self) -> None:
        """A request waits with another agent now, or with one that may have lost the number."""
        if self._is_demand:
            self._told = _UNKNOWN
            if self._timer is None:
                self._tell_later()

    def close(self) -> None:
        """The pool wants nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told:
            self._tell(0, self._told_to)

    def _tell_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(limits.BACKLOG_TOLD_MS / 1_000, self._due)

    def _due(self) -> None:
        self._timer = None
        self._leases.cancel(self._pool.requests_surplus())
        count = self._pool.backlog()
        address = self._address()
        if address is None:
            if count:
                self._tell_later()  # requests are on their way from one agent to another
            return
        if self._told and address != self._told_to:
            self._tell(0, self._told_to)
        if count != self._told:
            self._tell(count, address)

    def _tell(self, count: int, address: str) -> None:
        self._told = count
        self._told_to = address if count else ""
        if address:
            like = self._key.lease_request(b"")
            like.backlog.key = self._number
            like.backlog.count = count
            self._leases.tell_backlog(address, like)

    def _address(self) -> str | None:
        """The one agent that keeps this pool's requests waiting; None: there are several now."""
        if self._leases.home_schedules:
            return self._leases.home_address
        found = self._leases.where_asked(self._pool.requested)
        if len(found) > 1:
            return None
        return next(iter(found), self._told_to)
