import asyncio

import pytest

from cluster_common.transport.task_keeper import TaskKeeper


async def test_close_cancels_and_waits_for_every_task():
    keeper = TaskKeeper("part")
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    keeper.start(work(), "one")
    task = keeper.start(work(), "two")
    await asyncio.sleep(0)
    await keeper.close()
    assert ended == [True, True]
    assert task.cancelled()


async def test_nothing_starts_after_close():
    keeper = TaskKeeper("part")
    await keeper.close()

    async def work():
        raise AssertionError("must not run")

    with pytest.raises(RuntimeError, match="part is closed"):
        keeper.start(work(), "late")


async def test_a_task_that_fails_does_not_disturb_the_others():
    keeper = TaskKeeper("part")

    async def fails():
        raise ValueError("broken")

    async def works():
        return 1

    failed = keeper.start(fails(), "fails")
    fine = keeper.start(works(), "works")
    assert await fine == 1
    with pytest.raises(ValueError, match="broken"):
        await failed
    await keeper.close()
