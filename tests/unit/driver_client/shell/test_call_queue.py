"""The queue before a worker's main thread: order, taking back, no lost wake-up."""

import threading

from driver_client.shell.call_queue import CallQueue

WAIT_S = 10.0


def call(stream, sequence):
    return (stream, sequence, None, b"", None)


def test_work_comes_out_in_order():
    queue = CallQueue()
    queue.extend([call("s", 1), call("s", 2)])
    queue.extend([None])
    assert [queue.take()[1], queue.take()[1], queue.take()] == [1, 2, None]


def test_what_was_not_started_can_be_taken_back_in_order_up_to_work_of_the_worker():
    queue = CallQueue()

    def construct():
        pass

    queue.extend([call("s", 1), construct, call("s", 2), call("t", 3)])
    assert [item[1] for item in queue.take_back()] == [2, 3]
    assert queue.take_back() == []
    assert queue.take()[1] == 1
    assert queue.take() is construct


def test_the_end_is_not_taken_back():
    queue = CallQueue()
    queue.extend([call("s", 1), None])
    assert queue.take_back() == []
    assert len(queue) == 2


def test_only_the_calls_of_the_caller_that_is_gone_are_dropped():
    queue = CallQueue()
    queue.extend([call("s", 1), call("t", 2), call("s", 3)])
    queue.drop("s")
    assert queue.take()[1] == 2
    assert len(queue) == 0


def test_no_wake_up_is_lost_between_producer_and_consumer():
    """The consumer falls asleep after each item; the producer waits for it to be taken."""
    queue = CallQueue()
    taken = []
    step = threading.Semaphore(0)

    def consume():
        while (item := queue.take()) is not None:
            taken.append(item[1])
            step.release()

    thread = threading.Thread(target=consume)
    thread.start()
    for sequence in range(500):
        queue.extend([call("s", sequence)])
        assert step.acquire(timeout=WAIT_S)
    queue.extend([None])
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert taken == list(range(500))


def test_taking_back_while_the_consumer_runs_loses_and_doubles_nothing():
    queue = CallQueue()
    taken, back = [], []

    def consume():
        while (item := queue.take()) is not None:
            taken.append(item[1])

    thread = threading.Thread(target=consume)
    thread.start()
    for start in range(0, 5_000, 50):
        queue.extend([call("s", n) for n in range(start, start + 50)])
        back += [item[1] for item in queue.take_back()]
    queue.extend([None])
    thread.join(WAIT_S)
    assert sorted(taken + back) == list(range(5_000))
    assert taken == sorted(taken)
