"""Libraries on the public API: queue, actor pool, multiprocessing pool, joblib."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import os
import threading

import joblib
import pytest

import shoal
from shoal.util.actor_pool import ActorPool
from shoal.util.joblib import register_shoal
from shoal.util.multiprocessing import Pool
from shoal.util.queue import Empty, Full, Queue
from tests.cluster.remote_code import Counter, gated, pass_gate
from tests.cluster.waiting import until

pytestmark = pytest.mark.usefixtures("settled")


# ---- queue


@pytest.fixture
def queue():
    made = Queue(maxsize=2)
    yield made
    made.shutdown(force=True)


def test_a_queue_keeps_order_and_says_when_it_is_full_or_empty(queue):
    queue.put("a")
    queue.put_nowait("b")
    assert (queue.qsize(), len(queue), queue.full(), queue.empty()) == (2, 2, True, False)
    for late in (lambda: queue.put_nowait("c"), lambda: queue.put("c", timeout=0.01)):
        with pytest.raises(Full):
            late()
    assert [queue.get(), queue.get_nowait()] == ["a", "b"]
    for early in (queue.get_nowait, lambda: queue.get(timeout=0.01)):
        with pytest.raises(Empty):
            early()


def test_batches_are_whole_or_nothing(queue):
    with pytest.raises(Full):
        queue.put_nowait_batch([1, 2, 3])
    queue.put_nowait_batch([1, 2])
    with pytest.raises(Empty):
        queue.get_nowait_batch(3)
    assert queue.get_nowait_batch(2) == [1, 2]
    with pytest.raises(TypeError):
        queue.put_nowait_batch(3)
    with pytest.raises(TypeError):
        queue.get_nowait_batch("2")
    with pytest.raises(ValueError, match="num_items"):
        queue.get_nowait_batch(-1)
    with pytest.raises(ValueError, match="timeout"):
        queue.get(timeout=-1)


def test_a_queue_travels_and_waiting_ends_when_somebody_puts(queue):
    taken = shoal.remote(lambda shared: [shared.get() for _ in range(3)]).remote(queue)
    for item in range(3):
        queue.put(item)
    assert shoal.get(taken) == [0, 1, 2]


async def test_coroutines_use_the_queue_too(queue):
    waiting = asyncio.ensure_future(queue.get_async())
    await queue.put_async("x")
    assert await waiting == "x"
    with pytest.raises(Empty):
        await queue.get_async(block=False)
    with pytest.raises(Empty):
        await queue.get_async(timeout=0.01)


def test_a_queue_that_was_shut_down_answers_no_more():
    queue = Queue()
    copy = shoal.get(shoal.put(queue))
    queue.shutdown()
    with pytest.raises(shoal.exceptions.RayActorError):
        copy.qsize()


# ---- actor pool


def test_an_actor_pool_gives_results_in_order_or_as_they_come(gate):
    pool = ActorPool([Counter.remote() for _ in range(2)])
    assert list(pool.map(lambda actor, value: actor.add.remote(0 * value), range(6))) == [0] * 6
    pool.submit(lambda actor, path: actor.gated.remote(path), gate.path)
    pool.submit(lambda actor, value: actor.add.remote(value), 0)
    assert not pool.has_free()
    with pytest.raises(TimeoutError):
        pool.get_next(timeout=0.01)
    assert pool.get_next_unordered(timeout=20) == 0
    gate.open()
    assert pool.get_next_unordered(timeout=20) > 0
    assert not pool.has_next()
    with pytest.raises(StopIteration):
        pool.get_next()


def test_actors_come_and_go_and_an_error_does_not_lose_one():
    actor = Counter.remote()
    pool = ActorPool([actor])
    with pytest.raises(ValueError, match="belongs"):
        pool.push(actor)
    assert pool.pop_idle() == actor
    assert pool.pop_idle() is None
    pool.push(actor)
    pool.submit(lambda each, text: each.fail.remote(text), "bad")
    pool.submit(lambda each, value: each.add.remote(value), 1)
    with pytest.raises(ValueError, match="bad"):
        pool.get_next()
    assert pool.get_next() == 1


# ---- multiprocessing


def square(number):
    return number * number


def picky(number):
    if number == 3:
        raise KeyError("three")
    return number


def own_pid(_number=0):
    return os.getpid()


def test_a_pool_has_the_calls_of_the_standard_library():
    with Pool(2) as pool:
        assert pool.apply(pow, (2, 5)) == 32
        assert pool.apply(int, ("11",), {"base": 2}) == 3
        assert pool.map(square, range(20)) == [n * n for n in range(20)]
        assert pool.map(square, []) == []
        assert pool.starmap(pow, [(2, 3), (3, 2)], chunksize=1) == [8, 9]
        assert list(pool.imap(square, range(7))) == [n * n for n in range(7)]
        unordered = pool.imap_unordered(square, range(7), chunksize=3)
        assert sorted(unordered) == [n * n for n in range(7)]
        result = pool.map_async(square, range(3))
        assert result.get(20) == [0, 1, 4]
        assert (result.ready(), result.successful()) == (True, True)


def test_an_endless_source_is_read_as_results_are_taken():
    with Pool(2) as pool:
        results = pool.imap(square, itertools.count())
        assert list(itertools.islice(results, 100)) == [n * n for n in range(100)]


def test_errors_of_pool_calls_keep_their_class_and_say_where(gate):
    with Pool(2) as pool:
        with pytest.raises(KeyError, match="three") as caught:
            pool.map(picky, range(6))
        assert "in picky" in caught.value.__notes__[0]
        results = pool.imap(picky, range(3, 5))
        with pytest.raises(KeyError):
            next(results)
        assert next(results) == 4
        held = pool.apply_async(pass_gate, (gate.path,))
        with pytest.raises(multiprocessing.TimeoutError):
            held.get(0.01)
        with pytest.raises(ValueError, match="not ready"):
            held.successful()
        gate.open()
        assert held.get(20) is None


def test_callbacks_run_once_the_result_is_there():
    told = []
    seen = threading.Event()
    with Pool(1) as pool:
        pool.apply_async(picky, (1,), callback=told.append)
        pool.apply_async(picky, (3,), error_callback=lambda e: (told.append(type(e)), seen.set()))
        assert seen.wait(20)
    assert told == [1, KeyError]


def test_a_process_is_set_up_and_replaced_after_so_many_chunks():
    def set_up(value):
        os.environ["POOL_VALUE"] = value

    pool = Pool(1, initializer=set_up, initargs=("ready",), maxtasksperchild=2)
    assert pool.apply(os.getenv, ("POOL_VALUE",)) == "ready"
    pids = pool.map(own_pid, range(5), chunksize=1)
    assert len(set(pids)) == 3
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.map(square, [1])
    pool.join()


def test_a_process_that_dies_fails_its_calls_and_is_replaced():
    with Pool(1) as pool:
        with pytest.raises(shoal.exceptions.ActorDiedError):
            pool.apply(os._exit, (1,))
        assert pool.apply(square, (3,)) == 9


def test_terminate_ends_what_runs(gate):
    pool = Pool(1)
    held = [pool.apply_async(pass_gate, (gate.path,)) for _ in range(5)]
    pool.terminate()
    pool.join()
    for result in held:
        with pytest.raises(shoal.exceptions.ActorDiedError):
            result.get(0)


def test_a_pool_that_nobody_refers_to_gives_its_cpus_back():
    pool = Pool(3)
    assert pool.map(square, [2]) == [4]
    del pool
    until(lambda: shoal.available_resources().get("CPU") == 4, "the CPUs are free again")


# ---- joblib


@pytest.mark.parametrize("backend", ["shoal", "ray"])
def test_joblib_runs_on_the_cluster(backend):
    register_shoal()
    with joblib.parallel_config(backend=backend, n_jobs=2):
        assert joblib.Parallel()(joblib.delayed(square)(n) for n in range(20)) == [
            n * n for n in range(20)
        ]
        pids = joblib.Parallel()(joblib.delayed(own_pid)(n) for n in range(20))
        assert os.getpid() not in pids
        with pytest.raises(KeyError):
            joblib.Parallel()(joblib.delayed(picky)(n) for n in range(20))


def test_all_cpus_of_the_cluster_are_what_minus_one_means(gate):
    register_shoal()
    with joblib.parallel_config(backend="shoal"):
        assert joblib.effective_n_jobs(-1) == 4
        assert joblib.effective_n_jobs(-2) == 3
    assert shoal.wait([gated.remote(gate.path)], timeout=0)[0] == []
    gate.open()
