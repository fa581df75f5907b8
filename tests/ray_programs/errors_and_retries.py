"""Errors keep their class, retries count, actors restart, limits hold."""

import os
import tempfile

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError, TaskCancelledError


class Mine(Exception):
    pass


@ray.remote(max_retries=3, retry_exceptions=[Mine])
def flaky(path):
    with open(path, "a+", encoding="ascii") as file:
        file.write("x")
        file.seek(0)
        if len(file.read()) < 3:
            raise Mine("not yet")
    return "third time"


@ray.remote
def fails():
    return 1 / 0


@ray.remote(num_cpus=0, max_restarts=1, max_task_retries=1)
class Phoenix:
    def __init__(self):
        self.calls = 0

    def call(self):
        self.calls += 1
        return self.calls

    def die_once(self, path):
        if not os.path.exists(path):
            open(path, "w", encoding="ascii").close()
            os._exit(1)
        return "back"


@ray.remote(num_cpus=0)
class Sleeper:
    async def sleep(self):
        import asyncio

        await asyncio.sleep(600)


ray.init()
with tempfile.TemporaryDirectory() as folder:
    assert ray.get(flaky.remote(os.path.join(folder, "flaky"))) == "third time"
    phoenix = Phoenix.remote()
    assert ray.get(phoenix.call.remote()) == 1
    assert ray.get(phoenix.die_once.remote(os.path.join(folder, "died"))) == "back"
    assert ray.get(phoenix.call.remote()) == 1
try:
    ray.get(fails.remote())
except ZeroDivisionError as error:
    assert isinstance(error, RayTaskError)
sleeper = Sleeper.remote()
ref = sleeper.sleep.remote()
try:
    ray.get(ref, timeout=0.05)
except GetTimeoutError:
    ray.cancel(ref)
try:
    ray.get(ref, timeout=30)
except TaskCancelledError:
    ray.kill(sleeper)
try:
    ray.get(sleeper.sleep.remote(), timeout=30)
except RayActorError:
    print("done")
