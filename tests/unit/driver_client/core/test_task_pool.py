"""Sharing, depth, requests, order; and: no task is ever lost, doubled or run beside a suspect."""

from collections import Counter, deque

from hypothesis import given, settings
from hypothesis import strategies as st

from driver_client import limits
from driver_client.core.call import CallTemplate
from driver_client.core.task_pool import LeasedWorker, TaskPool
from driver_client.objects.entry import Entry

MANY = CallTemplate(call_name="many", max_retries=-1)
ONCE = CallTemplate(call_name="once", max_retries=0)
TWICE = CallTemplate(call_name="twice", max_retries=1)


def task(sequence, template=MANY):
    return (sequence, template, b"", Entry(sequence, b"o" * 16, ""), None)


def pool_of(*records, workers=0):
    pool = TaskPool()
    pool.queue.extend(records)
    return pool, [pool.granted(b"lease%d" % n) for n in range(workers)]


def quick(worker):
    worker.mean_us = 1.0
    return worker


def sequences(records):
    return [record[0] for record in records]


def test_an_unknown_worker_gets_one_task_at_a_time():
    pool, (worker,) = pool_of(task(1), task(2), workers=1)
    assert sequences(pool.take_for(worker)) == [1]
    assert pool.take_for(worker) == []
    pool.finished(worker, 1, 10_000)
    assert sequences(pool.take_for(worker)) == [2]


def test_short_tasks_deepen_the_pipeline_and_a_long_one_ends_that():
    worker = LeasedWorker(b"l")
    assert worker.depth == 1
    for _ in range(40):
        worker.observe(10)
    assert worker.depth == limits.PIPELINE_DEPTH_MAX
    worker.observe(1_000_000)
    assert worker.depth == 1


def test_depth_never_promises_more_work_than_the_window():
    worker = LeasedWorker(b"l")
    for mean_us in (1, 124, 126, 500, 3_999, 4_001, 10**9):
        worker.mean_us = float(mean_us)
        assert 1 <= worker.depth <= limits.PIPELINE_DEPTH_MAX
        assert worker.depth == 1 or worker.depth * mean_us <= limits.PIPELINE_WINDOW_US


def test_what_waits_is_shared_between_the_workers_there_are():
    pool, workers = pool_of(*map(task, range(10)), workers=2)
    assert [len(pool.take_for(quick(worker))) for worker in workers] == [5, 3]


def test_requests_follow_the_queue_up_to_their_limit():
    pool, _ = pool_of(task(1), task(2))
    assert pool.requests_wanted() == 2
    pool.requested[b"a"] = None
    assert pool.requests_wanted() == 1
    pool.queue.extend(map(task, range(100)))
    assert pool.requests_wanted() == limits.LEASE_REQUESTS_PENDING_MAX - 1


def test_the_backlog_is_what_no_request_stands_for():
    pool, _ = pool_of(*map(task, range(20)))
    assert pool.backlog() == 20
    pool.requested.update(dict.fromkeys((b"a", b"b")))
    assert pool.backlog() == 18
    pool.queue.clear()
    assert pool.backlog() == 0


def test_more_requests_than_tasks_are_withdrawn_newest_first():
    pool, _ = pool_of(task(1), task(2))
    pool.requested.update(dict.fromkeys((b"a", b"b", b"c", b"d")))
    assert pool.requests_surplus() == [b"d", b"c"]
    assert list(pool.requested) == [b"a", b"b"]
    assert pool.requests_surplus() == []


def test_a_grant_makes_room_for_another_request():
    pool, _ = pool_of(*map(task, range(100)))
    pool.requested.update(dict.fromkeys((b"a", b"b")))
    before = pool.requests_wanted()
    pool.granted(b"a")
    assert pool.requests_wanted() == before + 1


def test_requests_are_unwanted_only_when_nothing_waits_and_newest_first():
    pool, _ = pool_of(task(1))
    pool.requested.update(dict.fromkeys((b"a", b"b", b"c")))
    assert pool.requests_unwanted() == []
    pool.queue.clear()
    assert pool.requests_unwanted() == [b"c", b"b", b"a"]
    assert pool.requested == {}


def test_what_comes_back_goes_to_the_front_in_its_order():
    pool, (worker,) = pool_of(*map(task, range(4)), workers=1)
    taken = pool.take_for(quick(worker))
    pool.queue.append(task(9))
    pool.gave_back(taken[1:], worker)
    assert sequences(pool.queue) == [1, 2, 3, 9]
    assert worker.in_flight == 1
    assert worker.depth == 1, "what came back waited behind a long task"


def test_idle_leases_are_those_that_got_nothing_since():
    pool, (early, late, busy) = pool_of(task(1), workers=3)
    early.idle_since_ms, late.idle_since_ms, busy.idle_since_ms = 10, 50, 10
    pool.take_for(busy)
    assert pool.idle_leases(40) == [early.lease_id]


def test_a_task_that_must_not_run_twice_has_its_worker_for_itself():
    pool, (worker,) = pool_of(task(1, ONCE), task(2), task(3, ONCE), workers=1)
    quick(worker)
    assert sequences(pool.take_for(worker)) == [1]
    assert pool.take_for(worker) == [], "nothing goes behind it"
    pool.finished(worker, 1, 1)
    assert sequences(pool.take_for(worker)) == [2]
    assert pool.take_for(worker) == [], "it does not go behind anything"


def test_a_task_in_flight_at_a_loss_runs_alone_until_it_is_over():
    pool, (first, second) = pool_of(task(1), task(2), workers=2)
    lost = [*pool.take_for(quick(first))]
    assert all(pool.use_attempt(record) for record in lost)
    pool.gave_back(lost, None)
    quick(second)
    assert sequences(pool.take_for(second)) == [1]
    assert pool.take_for(second) == []
    pool.finished(second, 1, 1)
    assert pool._attempts == {}


def test_attempts_are_counted_to_the_last_and_then_forgotten():
    pool, _ = pool_of()
    record = task(1, TWICE)
    assert [pool.use_attempt(record), pool.use_attempt(record)] == [True, False]
    assert pool._attempts == {}
    assert not pool.use_attempt(task(2, ONCE))
    assert all(pool.use_attempt(task(3)) for _ in range(50)), "-1 is without end"


def test_a_task_that_raised_and_is_repeated_keeps_its_count():
    pool, (worker,) = pool_of(task(1, TWICE), workers=1)
    record = task(1, TWICE)
    pool.queue = deque([record])
    pool.use_attempt(record)
    pool.take_for(worker)
    assert not pool.use_attempt(record)
    again, other = task(2), task(3, TWICE)
    pool.queue = deque([again])
    pool.finished(worker, 1, 1)
    pool.use_attempt(again)
    pool.take_for(worker)
    assert pool.use_attempt(again)
    pool.again(again, worker)
    pool.finished(worker, 1, 1)
    assert pool._attempts == {2: 2}
    assert pool.use_attempt(other)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("submit", "grant", "push", "finish", "return", "lose", "idle")),
        st.integers(0, 30),
    ),
    max_size=60,
)


class World:
    """A pool, the tasks it was given, and what became of each."""

    def __init__(self):
        self.pool = TaskPool()
        self.flying = {}
        self.done = []
        self.runs = Counter()
        self.templates = {}
        self.now_ms = 0

    def some_worker(self, number):
        leases = list(self.pool.leases.values())
        return leases[number % len(leases)] if leases else None

    def submit(self, number):
        for _ in range(number % 4):
            sequence = len(self.templates) + 1
            template = (MANY, ONCE, TWICE)[(number + sequence) % 3]
            self.templates[sequence] = template
            self.pool.queue.append(task(sequence, template))

    def grant(self, number):
        if number % 2 and self.pool.requests_wanted():
            self.pool.requested[b"lease%d" % self.now_ms] = None
        worker = self.pool.granted(b"lease%d" % self.now_ms)
        worker.mean_us = float(1 + number * 200)
        self.flying[worker.lease_id] = []

    def push(self, number):
        worker = self.some_worker(number)
        if worker is not None:
            batch = self.pool.take_for(worker)
            assert worker.in_flight <= worker.depth or not batch
            self.flying[worker.lease_id] += batch

    def finish(self, number):
        worker = self.some_worker(number)
        if worker is not None and self.flying[worker.lease_id]:
            count = 1 + number % len(self.flying[worker.lease_id])
            over = [self.flying[worker.lease_id].pop(0) for _ in range(count)]
            for record in over:
                self.runs[record[0]] += 1
            self.done += sequences(over)
            self.pool.finished(worker, count, number * 50)

    def give_back(self, number):
        worker = self.some_worker(number)
        if worker is not None and len(self.flying[worker.lease_id]) > 1:
            back = self.flying[worker.lease_id][1:]
            del self.flying[worker.lease_id][1:]
            self.pool.gave_back(back, worker)

    def lose(self, number):
        worker = self.some_worker(number)
        if worker is None:
            return
        del self.pool.leases[worker.lease_id]
        lost = self.flying.pop(worker.lease_id)
        again = []
        for record in lost:
            self.runs[record[0]] += 1  # the worst case: all of them had run
            if self.pool.use_attempt(record):
                again.append(record)
            else:
                self.done.append(record[0])
        self.pool.gave_back(again, None)

    def idle(self, number):
        worker = self.some_worker(number)
        if worker is not None and worker.in_flight == 0:
            del self.pool.leases[worker.lease_id]
            del self.flying[worker.lease_id]

    def check(self):
        queued = sequences(self.pool.queue)
        flying = [s for batch in self.flying.values() for s in sequences(batch)]
        assert sorted(queued + flying + self.done) == sorted(self.templates)
        assert set(self.flying) == set(self.pool.leases)
        for lease_id, batch in self.flying.items():
            worker = self.pool.leases[lease_id]
            assert worker.in_flight == len(batch)
            unique = [r for r in batch if r[1] is ONCE or r[0] in self.pool._attempts]
            assert not unique or worker.alone is not None
            assert worker.alone is None or len(batch) == 1
        for sequence, template in self.templates.items():
            if template.max_retries >= 0:
                assert self.runs[sequence] <= template.max_retries + 1


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_no_task_is_lost_doubled_or_run_more_often_than_allowed(steps):
    world = World()
    for action, number in steps:
        world.now_ms += 1
        getattr(world, {"return": "give_back"}.get(action, action))(number)
        world.check()
    world.grant(0)
    for _ in range(4 * len(world.templates) + 1):
        for worker in list(world.pool.leases.values()):
            world.flying[worker.lease_id] += world.pool.take_for(worker)
            while world.flying[worker.lease_id]:
                world.runs[world.flying[worker.lease_id][0][0]] += 1
                world.done.append(world.flying[worker.lease_id].pop(0)[0])
                world.pool.finished(worker, 1, 1)
    world.check()
    assert sorted(world.done) == sorted(world.templates)
    assert world.pool._attempts == {}


def test_a_worker_whose_stream_broke_gets_nothing_more():
    pool, (worker,) = pool_of(task(1), task(2, ONCE), workers=1)
    worker.is_lost = True
    assert pool.take_for(quick(worker)) == []
    assert sequences(pool.queue) == [1, 2]
