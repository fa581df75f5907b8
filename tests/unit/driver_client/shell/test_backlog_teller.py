"""Where and how often a pool says how many of its tasks wait for no request."""

import asyncio

import pytest

from cluster_api.v1 import agent_pb2 as pb
from driver_client import limits
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.core.task_pool import TaskPool
from driver_client.shell.backlog_teller import BacklogTeller

HOME, HEAD = "home:1", "head:1"
WAIT_S = 10.0


class Agents:
    """What the teller needs to know of agents, and what it told them."""

    def __init__(self, *, home_schedules):
        self.home_schedules = home_schedules
        self.home_address = HOME
        self.sessions = {HOME, HEAD}
        self.asked = {}
        self.told = []
        self.cancelled = []
        self.looks = 0

    def has_session(self, address):
        return address in self.sessions

    def where_asked(self, lease_ids):
        self.looks += 1
        return {self.asked[lease_id] for lease_id in lease_ids}

    def tell_backlog(self, address, like):
        assert like.backlog.key == 7
        self.told.append((address, like.backlog.count))

    def cancel(self, lease_ids):
        self.cancelled += lease_ids


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(limits, "BACKLOG_TOLD_MS", 1)


def teller_of(agents, queued, **fields):
    pool = TaskPool()
    pool.queue.extend(range(queued))
    return BacklogTeller(SchedulingKey(pb.LeaseRequest(**fields)), 7, pool, agents), pool


def stamped(teller):
    request = pb.LeaseRequest()
    address = teller.stamp(request)
    return address, request.backlog.count if request.HasField("backlog") else None


async def until(condition):
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - what is waited for is a plain list
            await asyncio.sleep(0)


async def test_a_request_to_a_home_that_schedules_says_what_is_behind_it():
    agents = Agents(home_schedules=True)
    teller, pool = teller_of(agents, 2)
    pool.requested[b"a"] = None
    assert stamped(teller) == (HOME, 1)
    pool.requested[b"b"] = None
    assert stamped(teller) == (HOME, 0)
    pool.requested[b"c"] = None
    assert stamped(teller) == (HOME, None)


async def test_many_changes_are_told_as_one():
    agents = Agents(home_schedules=True)
    teller, pool = teller_of(agents, 0)
    for number in range(1_000):
        pool.queue.append(number)
        teller.changed()
    await until(lambda: agents.told)
    assert agents.told == [(HOME, 1_000)]
    teller.changed()
    pool.queue.popleft()
    await until(lambda: len(agents.told) > 1)
    assert agents.told[1:] == [(HOME, 999)]


async def test_requests_that_wait_elsewhere_take_the_number_there():
    agents = Agents(home_schedules=False)
    teller, pool = teller_of(agents, 3)
    assert stamped(teller) == (None, None)
    pool.requested.update(dict.fromkeys((b"a", b"b")))
    agents.asked = {b"a": HEAD, b"b": HOME}
    teller.changed()
    await until(lambda: agents.looks > 1)
    assert agents.told == []  # the home agent may grant what it still has
    agents.asked[b"b"] = HEAD
    await until(lambda: agents.told)
    assert agents.told == [(HEAD, 1)]
    pool.queue.append(4)
    pool.requested[b"c"] = None
    assert stamped(teller) == (HEAD, 1)
    agents.sessions.remove(HEAD)
    assert stamped(teller) == (None, None)


async def test_a_request_that_moved_takes_the_number_along():
    agents = Agents(home_schedules=False)
    teller, pool = teller_of(agents, 3)
    pool.requested[b"a"] = None
    agents.asked[b"a"] = HOME
    teller.changed()
    await until(lambda: agents.told)
    agents.asked[b"a"] = HEAD
    teller.moved()
    await until(lambda: len(agents.told) > 2)
    assert agents.told == [(HOME, 2), (HOME, 0), (HEAD, 2)]


async def test_an_agent_that_was_away_is_told_again():
    agents = Agents(home_schedules=True)
    teller, _ = teller_of(agents, 3)
    teller.changed()
    await until(lambda: agents.told)
    teller.moved()
    await until(lambda: len(agents.told) > 1)
    assert agents.told == [(HOME, 3)] * 2


async def test_requests_without_tasks_are_withdrawn():
    agents = Agents(home_schedules=True)
    teller, pool = teller_of(agents, 1)
    pool.requested.update(dict.fromkeys((b"a", b"b", b"c")))
    teller.changed()
    await until(lambda: agents.cancelled)
    assert agents.cancelled == [b"c", b"b"]
    assert agents.told == []


async def test_at_the_end_nothing_is_left_behind():
    agents = Agents(home_schedules=True)
    teller, pool = teller_of(agents, 2)
    teller.changed()
    await until(lambda: agents.told)
    pool.queue.clear()
    teller.changed()
    teller.close()
    teller.close()
    assert agents.told == [(HOME, 2), (HOME, 0)]


async def test_work_in_a_group_is_no_demand():
    agents = Agents(home_schedules=False)
    teller, _ = teller_of(agents, 2, placement_group_id=b"g" * 24)
    teller.changed()
    teller.moved()
    teller.close()
    assert (agents.looks, agents.told) == (0, [])
