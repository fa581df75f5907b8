"""Open streams by number, whatever flows on them. Belongs to the I/O loop's thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

from cluster_common.transport.outbox import Outbox, OutboxOverflowError
from gcs_service import limits
from gcs_service.core.effects import TABLE_FULL, Refusal
from gcs_service.shell.pacer import Pacer
from gcs_service.shell.service_binding import RefusedError


class Session:
    """One stream's outgoing side. `run` ends when the session is closed from this side."""

    def __init__(self, number: int, outbox: Outbox[Any]) -> None:
        self.number = number
        self.outbox = outbox
        self.nodes: dict[bytes, int] = {}
        """Nodes whose session this stream carries, each with its newest incarnation."""
        self._is_closing = False
        self._is_cut = False
        # A future, made by who waits: an Event would be half a kilobyte of every idle stream.
        self._over: asyncio.Future[None] | None = None

    def close_when_sent(self) -> None:
        """Ends the stream after what is queued has been written."""
        self._is_closing = True
        self._end()

    def cut(self) -> None:
        """Ends the stream now: the peer does not read."""
        self._is_cut = True
        self._end()

    def _end(self, _task: object = None) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    async def run(self, receive: Callable[[], Awaitable[None]] | None = None) -> None:
        """Sends and receives until the peer ends, the stream breaks, or we close.

        `receive` returns at the peer's end; None: the peer says nothing on this stream.
        """
        self._over = asyncio.get_running_loop().create_future()
        sender = asyncio.ensure_future(self.outbox.run())
        tasks: list[asyncio.Future[None]] = [sender]
        if receive is not None:
            tasks.append(asyncio.ensure_future(receive()))
        for task in tasks:
            task.add_done_callback(self._end)
        try:
            if not (self._is_closing or self._is_cut):
                await self._over
            if self._is_closing and not self._is_cut:
                tasks.append(asyncio.ensure_future(self.outbox.drained()))
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if receive is not None and not tasks[1].cancelled():
            tasks[1].result()  # what is wrong with a frame is for the peer to know


class SessionHub:
    """Numbers sessions and routes items to them. Items for a session that is gone are dropped."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}
        self._last_number = 0
        self.items_out = 0
        self._pacer = Pacer()

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def longest_backlog(self) -> int:
        """Unsent items of the peer that reads most slowly."""
        return max((len(each.outbox) for each in self._sessions.values()), default=0)

    @property
    def writes_waiting(self) -> int:
        """Streams that wait for their turn to write."""
        return len(self._pacer)

    def open(self, write: Callable[[Sequence[Any]], Awaitable[None]], **options: Any) -> Session:
        """A new session whose frames go out through `write`.

        Raises:
            RefusedError: `SESSIONS_MAX` are open.
        """
        if len(self._sessions) >= limits.SESSIONS_MAX:
            message = f"{limits.SESSIONS_MAX} streams are open, the limit"
            raise RefusedError(Refusal(TABLE_FULL, message))
        self._last_number += 1
        session = Session(self._last_number, Outbox(write, pace=self._pacer, **options))
        self._sessions[session.number] = session
        return session

    def close(self, session: Session) -> None:
        """The stream is over."""
        self._sessions.pop(session.number, None)

    def tell(self, number: int, item: Any, key: Hashable = None) -> None:
        """Queues an item."""
        session = self._sessions.get(number)
        if session is None:
            return
        self.items_out += 1
        try:
            session.outbox.put(item, key)
        except OutboxOverflowError:
            # The peer does not read: it is cut off, and resumes with a snapshot if it lives.
            del self._sessions[number]
            session.cut()

    def tell_many(self, numbers: Sequence[int], item: Any, key: Hashable) -> None:
        """Queues one item for many sessions."""
        for number in numbers:
            self.tell(number, item, key)

    def leave(self, number: int, node_id: bytes, incarnation: int) -> None:
        """A node's session ends; the stream too, in order, when it carries no other node."""
        session = self._sessions.get(number)
        if session is None or session.nodes.get(node_id, incarnation) > incarnation:
            return  # the node registered anew meanwhile, over the same stream
        session.nodes.pop(node_id, None)
        if not session.nodes:
            session.close_when_sent()

    def close_when_sent(self, number: int) -> None:
        """Ends a session in order."""
        session = self._sessions.get(number)
        if session is not None:
            session.close_when_sent()

    def close_all(self) -> None:
        """The service ends."""
        for session in list(self._sessions.values()):
            session.close_when_sent()
