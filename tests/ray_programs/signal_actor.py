"""An async actor as a signal: tasks and coroutines wait for it."""

import asyncio

import ray


@ray.remote(num_cpus=0)
class SignalActor:
    def __init__(self):
        self.ready_event = asyncio.Event()

    def send(self, clear=False):
        self.ready_event.set()
        if clear:
            self.ready_event.clear()

    async def wait(self, should_wait=True):
        if should_wait:
            await self.ready_event.wait()

    async def cur_num_waiters(self):
        return len(self.ready_event._waiters)


@ray.remote(num_cpus=0.5)
def wait_and_go(signal):
    ray.get(signal.wait.remote())
    return "go"


ray.init()
signal = SignalActor.remote()
tasks = [wait_and_go.remote(signal) for _ in range(4)]
while ray.get(signal.cur_num_waiters.remote()) < 4:
    assert ray.wait(tasks, timeout=0.01) == ([], tasks)
ray.get(signal.send.remote())
assert ray.get(tasks) == ["go"] * 4


async def main():
    await asyncio.gather(*[signal.wait.remote() for _ in range(10)])
    return await asyncio.wait_for(signal.cur_num_waiters.remote().as_future(), 10)


assert asyncio.run(main()) == 0
print("done")
