"""The last exchange of a worker that ends in order: everybody says that they read its last words.

gRPC reports a write as done before its threads have given it to the kernel, so a process that ends
right after its last write takes answers with it. What a peer confirms it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from driver_client import limits
from driver_client.shell.ownership import Ownership
from driver_client.shell.peer_stream import PeerStream


async def say_farewell(
    streams: Iterable[PeerStream], ownership: Ownership, agent_heard: asyncio.Event
) -> None:
    """Returns when every caller has read its answers and the agent knows that this is no crash.

    Call it when nothing runs any more. A peer that hangs is waited for `EXIT_ANSWERS_READ_S`.

    Args:
        streams: of the callers; those that open meanwhile get their calls back unstarted.
        ownership: answers with references wait for the owners of those.
        agent_heard: set when the agent confirmed the announced end.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(limits.EXIT_ANSWERS_READ_S):
            await _answers_queued(ownership)
            waited = list(streams)
            for stream in waited:
                stream.say_closing()
            for stream in waited:
                await stream.read_to_its_end.wait()
            await agent_heard.wait()


async def _answers_queued(ownership: Ownership) -> None:
    """Waits until no answer is held back any more by references its owner does not know of yet."""
    queued = asyncio.Event()
    ownership.after_acknowledged(list(ownership.unacknowledged()), queued.set)
    await queued.wait()
