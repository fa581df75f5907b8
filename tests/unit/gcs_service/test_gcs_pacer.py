"""Turns on the I/O loop: few at once, in order, and nobody waits for who does not end."""

from __future__ import annotations

import asyncio

from gcs_service import limits
from gcs_service.shell.pacer import Pacer


async def test_few_write_at_once_and_in_order():
    pacer, order, under_way, most = Pacer(), [], set(), 0

    async def write(number):
        nonlocal most
        try:
            await pacer.enter(number)
            order.append(number)
            under_way.add(number)
            most = max(most, len(under_way))
            await asyncio.sleep(0)
        finally:
            under_way.discard(number)
            pacer.leave(number)

    await asyncio.wait_for(asyncio.gather(*(write(number) for number in range(500))), 10)
    assert order == list(range(500))
    assert most <= limits.STREAM_WRITES_FEW
    assert len(pacer) == 0


async def test_a_lone_write_passes_at_once():
    pacer = Pacer()
    entering = pacer.enter("one")
    try:
        entering.send(None)
    except StopIteration:
        return
    raise AssertionError("it had to wait")


async def test_writes_that_do_not_end_keep_nobody_waiting():
    pacer = Pacer()
    for number in range(limits.STREAM_WRITES_FEW):
        await pacer.enter(("stuck", number))
    await asyncio.wait_for(pacer.enter("alive"), 10)


async def test_who_gives_up_while_waiting_takes_no_turn():
    pacer = Pacer()
    for number in range(limits.STREAM_WRITES_FEW):
        await pacer.enter(number)
    gone = asyncio.ensure_future(pacer.enter("gone"))
    await asyncio.sleep(0)
    gone.cancel()
    pacer.leave(0)
    await asyncio.wait_for(pacer.enter("next"), 10)
