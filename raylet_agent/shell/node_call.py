"""One node's part of a shared stream, used like a stream of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import grpc
import msgspec

from cluster_api.v1 import node_session_pb2 as n
from cluster_common import limits as common_limits

_SCOPE_SETTING = "sync_scope"
_ALL = "all"


class Upstream(Protocol):
    """The stream that carries it."""

    def attach(self, call: NodeCall) -> None:
        """Items that name the call's node are for `call` now, or it has ended."""
        ...

    async def send(self, items: Sequence[n.AgentItem]) -> bool:
        """Returns when they were written; False: the stream has ended."""
        ...

    def leave(self, call: NodeCall) -> None:
        """The node gives its part up."""
        ...


class Frame(msgspec.Struct, frozen=True, gc=False):
    """What came for one node, in order; stands for a `GcsFrame`."""

    items: list[n.GcsItem]


class NodeCall:
    """Has what a session uses of a gRPC call: write, read, cancel, code, details.

    What still comes for an earlier registration of the node is not for this one: nothing is read
    before the welcome that names its incarnation, as on a stream of its own.
    """

    def __init__(self, upstream: Upstream) -> None:
        self.node_id = b""
        self.incarnation = 0
        self._upstream = upstream
        self._is_welcomed = False
        self._takes_views = False
        self._items: list[n.GcsItem] = []
        self._reader: asyncio.Future[None] | None = None
        self._end: tuple[grpc.StatusCode, str] | None = None

    # ---- the session's side

    async def write(self, frame: n.AgentFrame) -> None:
        """Returns when the items were written, together with those of other nodes.

        Raises:
            asyncio.InvalidStateError: the stream has ended.
        """
        if not frame.items:
            return
        first = frame.items[0]
        if not self.node_id and first.WhichOneof("item") == "register":
            self.node_id, self.incarnation = first.node_id, first.register.incarnation
            self._takes_views = first.register.is_scheduler
            self._upstream.attach(self)
        if self._end is not None or not await self._upstream.send(frame.items):
            raise asyncio.InvalidStateError("the stream to the GCS has ended")

    async def read(self) -> Any:
        """The next items as a `Frame`, or EOF. A local `cancel` surfaces as CancelledError."""
        while not self._items:
            if self._end is not None:
                return grpc.aio.EOF
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        items, self._items = self._items, []
        return Frame(items)

    def cancel(self) -> bool:
        """Gives the node's part up."""
        self._upstream.leave(self)
        if self._end is not None:
            return False
        self._end = (grpc.StatusCode.CANCELLED, "given up by the node")
        if self._reader is not None:
            self._reader.cancel()
        return True

    async def code(self) -> grpc.StatusCode:
        """How it ended; asked after EOF."""
        return grpc.StatusCode.OK if self._end is None else self._end[0]

    async def details(self) -> str:
        """Why it ended; asked after EOF."""
        return "" if self._end is None else self._end[1]

    # ---- the stream's side

    def put(self, item: n.GcsItem) -> None:
        """Something for this node, or for all; `wake` follows."""
        if not self._is_for_session(item, item.WhichOneof("item")):
            return
        if len(self._items) >= common_limits.OUTBOX_ITEMS_MAX:
            self._items.clear()  # a new session states everything anew
            self.end(grpc.StatusCode.RESOURCE_EXHAUSTED, "the node reads too slowly")
            self._upstream.leave(self)
            return
        self._items.append(item)

    def _is_for_session(self, item: n.GcsItem, kind: str | None) -> bool:
        if not self._is_welcomed:
            if kind == "welcome" and item.welcome.incarnation == self.incarnation:
                self._is_welcomed = True
                # `get`: reading a missing key of a map would add it.
                if item.welcome.settings.get(_SCOPE_SETTING) == _ALL:
                    self._takes_views = True
                return True
            return kind == "refused"
        if kind == "view":
            return self._takes_views and item.view.node_id != self.node_id
        return True

    def wake(self) -> None:
        """What was put may be read."""
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def end(self, code: grpc.StatusCode, details: str) -> None:
        """Nothing comes any more; what came is still read."""
        if self._end is None:
            self._end = (code, details)
            self.wake()
