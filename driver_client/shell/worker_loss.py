"""Joins the two signs of a worker's end: its stream broke, and its agent said why.

They come in any order. The stream is read to its end first (results may still be in it); the cause
decides what is retried. If the agent says nothing, the worker is given back and counts as crashed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cluster_api.v1 import agent_pb2 as pb
from driver_client.core.call import CallRecord
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.peer_connection import PeerConnection

_WAIT_FOR_OTHER_S = 2.0

Finish = Callable[[list[CallRecord], pb.LeasedWorkerEnded], None]


class WorkerLoss:
    """State of one leased worker's end. Calls `finish` exactly once."""

    def __init__(
        self, lease_id: bytes, connection: PeerConnection, leases: LeaseClient, finish: Finish
    ) -> None:
        self._lease_id = lease_id
        self._connection = connection
        self._leases = leases
        self._finish: Finish | None = finish
        self._unfinished: list[CallRecord] | None = None
        self._ended: pb.LeasedWorkerEnded | None = None
        self._timer: asyncio.TimerHandle | None = None

    def ended(self, ended: pb.LeasedWorkerEnded) -> None:
        """The agent's word."""
        self._ended = ended
        announced_and_gone = ended.cause == pb.WORKER_END_CAUSE_PREEMPTED and not ended.worker_id
        if ended.cause == pb.WORKER_END_CAUSE_NODE_DIED or announced_and_gone:
            # The whole node is gone: nobody will end the worker's stream.
            self._abort()
        self._join()

    def stream_lost(self, unfinished: list[CallRecord]) -> None:
        """The stream's end."""
        self._unfinished = unfinished
        self._join()

    def forget(self) -> None:
        """The lease went back in order: nothing more to tell."""
        self._finish = None
        if self._timer is not None:
            self._timer.cancel()

    def _join(self) -> None:
        if self._finish is None:
            return
        if self._unfinished is None or self._ended is None:
            if self._timer is None:
                loop = asyncio.get_running_loop()
                self._timer = loop.call_later(_WAIT_FOR_OTHER_S, self._give_up)
            return
        finish, self._finish = self._finish, None
        if self._timer is not None:
            self._timer.cancel()
        finish(self._unfinished, self._ended)

    def _abort(self) -> None:
        if self._unfinished is None:
            self._unfinished = self._connection.abort()

    def _give_up(self) -> None:
        self._timer = None
        self._abort()
        if self._ended is None:
            self._leases.give_back(self._lease_id, kill_worker=True, reason="its stream broke")
            self._ended = pb.LeasedWorkerEnded(
                lease_id=self._lease_id,
                cause=pb.WORKER_END_CAUSE_CRASHED,
                message="the connection to the worker broke",
            )
        self._join()
