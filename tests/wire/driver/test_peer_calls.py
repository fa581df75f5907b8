"""Calls over real streams to a real executor."""

import threading

import pytest

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client import exceptions, limits
from driver_client.core.call import CallTemplate
from driver_client.objects import serialization
from driver_client.shell.peer_stream import PeerStream
from tests.wire.driver.peer_rig import until

ran = []
gates = {}


def note(value):
    ran.append(value)
    return value


def block(name):
    ran.append(name)
    gates[name].wait(10)
    return name


def fail(text):
    raise KeyError(text)


def pair(count):
    return tuple(range(count))


def lock():
    return threading.Lock()


@pytest.fixture(autouse=True)
def _clean(rig):  # what waits at a gate ends before the rig does
    ran.clear()
    gates.clear()
    yield
    for gate in gates.values():
        gate.set()


def gate(name):
    gates[name] = threading.Event()
    return gates[name]


def add(a, b=0):
    return a + b


def test_a_call_returns_its_value(rig):
    connection = rig.connect()
    assert rig.value(rig.call(connection, add, 1, b=2)) == 3
    assert rig.value(rig.call(connection, add, b"x" * 300_000, b=b"y"))[-1:] == b"y"


@pytest.fixture
def nothing_runs_long(monkeypatch):
    """On a busy machine any call may: what waits behind it would be given back unstarted."""
    monkeypatch.setattr(limits, "TAKE_BACK_AFTER_MS", 60_000)


@pytest.mark.usefixtures("nothing_runs_long")
def test_calls_run_in_the_order_they_were_sent(rig):
    connection = rig.connect()
    records = [rig.record(rig.template(note), n) for n in range(1_500)]
    rig.send(connection, *records)
    assert [rig.value(record) for record in records] == list(range(1_500))
    assert ran == list(range(1_500))
    until(lambda: rig.caller.counted == 1_500, "every answer is counted")
    assert connection.in_flight == {}


@pytest.mark.usefixtures("nothing_runs_long")
def test_streams_of_several_callers_each_keep_their_order(rig):
    first, second = rig.connect(), rig.connect()
    records = []
    for n in range(100):
        records.append(rig.call(first, note, ("a", n)))
        records.append(rig.call(second, note, ("b", n)))
    for record in records:
        rig.value(record)
    for letter in "ab":
        assert [n for which, n in ran if which == letter] == list(range(100))


def test_an_error_comes_as_the_users_class_with_the_remote_traceback(rig):
    record = rig.call(rig.connect(), fail, "k")
    with pytest.raises(KeyError) as caught:
        rig.value(record)
    assert isinstance(caught.value, exceptions.RayTaskError)
    assert "fail" in str(caught.value)
    assert "KeyError: 'k'" in str(caught.value)
    assert "driver_client" not in str(caught.value), "our own frames are left out"


def test_several_values_go_to_several_entries(rig):
    record = rig.record(rig.template(pair, num_returns=3), 3)
    rig.send(rig.connect(), record)
    assert [rig.value(record, part) for part in range(3)] == [0, 1, 2]


def test_a_wrong_number_of_values_is_an_error_of_every_return(rig):
    record = rig.record(rig.template(pair, num_returns=3), 2)
    rig.send(rig.connect(), record)
    for part in range(3):
        with pytest.raises(ValueError, match="num_returns=3 but returned 2"):
            rig.value(record, part)


def test_a_value_that_cannot_be_pickled_is_an_error(rig):
    record = rig.call(rig.connect(), lock)
    with pytest.raises(TypeError, match="pickle"):
        rig.value(record)


def test_what_waits_behind_a_long_task_comes_back_in_order(rig):
    connection = rig.connect()
    gate("long")
    long, *others = records = [
        rig.record(rig.template(block), "long"),
        *(rig.record(rig.template(note), n) for n in range(5)),
    ]
    rig.send(connection, *records)
    until(lambda: len(rig.caller.returned) == 5, "five tasks are given back")
    assert rig.caller.returned == others
    assert set(connection.in_flight) == {long[0]}
    gates["long"].set()
    assert rig.value(long) == "long"
    assert ran == ["long"], "what came back did not run"


def test_a_cancelled_call_that_waits_does_not_run(rig):
    connection = rig.connect()
    rig.worker.executor.actor = None
    gate("first")
    first = rig.call(connection, block, "first")
    until(lambda: ran == ["first"], "the first call runs")
    second = rig.record(rig.template(note), 2)

    def send_and_cancel():
        connection.send([second])
        task = rig.owner.services.owner_id + second[0].to_bytes(8, "big")
        connection.control().cancel_task_ids.append(task)

    rig.on_io(send_and_cancel)
    with pytest.raises(exceptions.TaskCancelledError):
        rig.value(second)
    gates["first"].set()
    assert rig.value(first) == "first"
    assert ran == ["first"]


def test_a_worker_that_ends_gives_calls_back_unstarted(rig):
    connection = rig.connect()
    rig.value(rig.call(connection, note, 1))
    rig.worker.executor.exiting = True
    record = rig.call(connection, note, 2)
    until(lambda: rig.caller.returned == [record], "the call comes back")
    assert ran == [1]


def test_a_broken_stream_hands_over_what_is_unanswered_in_order(rig):
    connection = rig.connect()
    gate("held")
    rig.value(rig.call(connection, note, 0))
    held = rig.call(connection, block, "held")
    until(lambda: ran == [0, "held"], "the call runs")
    rig.io.call(rig.worker.stop())
    until(lambda: rig.caller.lost, "the loss is told")
    (unfinished, message) = rig.caller.lost[0]
    assert unfinished == [held]
    assert message
    assert connection.closed


def test_an_address_where_nobody_listens_is_a_loss(rig):
    record = rig.record(rig.template(note), 1)
    rig.connect(address="127.0.0.1:1", records=[record])
    until(lambda: rig.caller.lost, "the loss is told")
    assert rig.caller.lost[0][0] == [record]
    assert "UNAVAILABLE" in rig.caller.lost[0][1]


@pytest.mark.parametrize("reason", ["wrong_receiver", "other_cluster"])
def test_who_means_another_process_or_cluster_is_refused(rig, reason, tmp_path):
    import sys

    rig.owner.sys_path = [str(tmp_path)]
    if reason == "other_cluster":
        rig.owner.cluster_id = b"x" * 16
    receiver = b"?" * 16 if reason == "wrong_receiver" else None
    record = rig.record(rig.template(note), 1)
    rig.connect(receiver_id=receiver, records=[record])
    until(lambda: rig.caller.lost, "the stream ends")
    refused = [frame.refused for frame in rig.caller.frames if frame.HasField("refused")]
    assert [one.reason for one in refused] == [reason]
    assert rig.worker.owner_id.hex() in refused[0].message
    assert rig.caller.lost[0][0] == [record]
    assert ran == []
    assert rig.worker.hooks.hellos == [], "who is refused changes nothing here"
    assert str(tmp_path) not in sys.path


def test_a_worker_that_knows_no_cluster_yet_takes_any(rig):
    rig.worker.hooks.cluster_id = b""
    rig.owner.cluster_id = b"x" * 16
    assert rig.value(rig.call(rig.connect(), add, 1)) == 1
    assert [hello.sender_id for hello in rig.worker.hooks.hellos] == [rig.owner.owner_id]


def test_a_function_is_sent_once_per_stream_and_named_by_number_after_that(rig):
    connection = rig.connect()
    for n in range(3):
        rig.value(rig.call(connection, add, n))
    same_body = rig.record(rig.template(add, num_returns=1, max_retries=0), 1)
    rig.send(connection, same_body)
    rig.value(same_body)
    assert len(connection._template_index) == 2
    assert len(connection._sent_bodies) == 1


class Counter:
    def __init__(self, start):
        if start < 0:
            raise ValueError("start is negative")
        self.count = start

    def add(self, n):
        self.count += n
        return self.count


def create(rig, connection, start):
    message = pb.CreateActor(
        actor_id=b"a" * 24, incarnation=1, payload=serialization.dumps(((start,), {}))
    )
    message.class_definition.pickled = serialization.dumps_by_value(Counter)
    message.class_definition.hash = b"h" * 16
    message.class_definition.name = "Counter"
    rig.on_io(lambda: connection.control().create_actor.CopyFrom(message))


def test_an_actor_is_made_before_its_first_call_and_runs_calls_in_order(rig):
    connection = rig.connect()
    create(rig, connection, 10)
    method = CallTemplate(method_name="add")
    records = [rig.record(method, 1) for _ in range(700)]
    rig.send(connection, *records)
    assert [rig.value(record) for record in records] == list(range(11, 711))
    created = [f.actor_created for f in rig.caller.frames if f.HasField("actor_created")]
    assert [(one.ok, one.incarnation) for one in created] == [(True, 1)]


def test_a_constructor_that_raises_answers_with_its_error(rig):
    connection = rig.connect()
    create(rig, connection, -1)
    until(lambda: rig.caller.frames, "the answer comes")
    created = rig.caller.frames[0].actor_created
    assert not created.ok
    assert "start is negative" in str(serialization.loads(created.error))


def test_a_method_that_is_none_names_it(rig):
    connection = rig.connect()
    create(rig, connection, 0)
    record = rig.record(CallTemplate(method_name="missing"))
    rig.send(connection, record)
    with pytest.raises(AttributeError, match="missing"):
        rig.value(record)


def test_an_argument_that_is_a_reference_comes_as_its_value(rig):
    reference, _ = rig.put([1, 2])
    connection = rig.connect()
    record = rig.record(rig.template(add), reference, b=[3])
    rig.send(connection, record)
    assert rig.value(record) == [1, 2, 3]
    named = rig.record(rig.template(add), [0], b=reference)
    rig.send(connection, named)
    assert rig.value(named) == [0, 1, 2]


def test_values_of_references_count_towards_the_size_of_a_frame(rig, monkeypatch):
    """Many calls with one large argument would otherwise make a frame that gRPC refuses."""
    monkeypatch.setattr(limits, "CALL_FRAME_BYTES_MAX", 10_000)
    reference, _ = rig.put(b"x" * 6_000)
    connection = rig.connect()
    records = [rig.record(rig.template(add), reference, b=b"") for _ in range(5)]
    connection.queue.extend(records)
    batches = []
    while connection.queue:
        batches.append(len(connection._take()))
    assert batches == [2, 2, 1]


def test_several_values_count_towards_the_size_of_a_frame(rig, monkeypatch):
    monkeypatch.setattr(limits, "CALL_FRAME_BYTES_MAX", 10_000)
    stream = rig.on_io(lambda: PeerStream(rig.io))
    detail = pb.ResultDetail(values=[b"x" * 3_000] * 2)
    for sequence in range(5):
        stream.results.append((sequence, b"", pb.RESULT_KIND_MULTIPLE, detail, 0))
    sizes = []
    while stream.results:
        batch = pb.ResultBatch()
        stream._add_results(batch)
        sizes.append(len(batch.task_seq))
    assert sizes == [2, 2, 1]


def test_a_frame_that_cannot_be_made_ends_the_stream(rig):
    """Otherwise the callers would wait for answers to what was never sent."""
    connection = rig.connect()
    rig.value(rig.call(connection, add, 1))
    broken = (
        *rig.record(rig.template(add), 1)[:2],
        "not bytes",
        *rig.record(rig.template(add))[3:],
    )
    rig.send(connection, broken)
    until(lambda: rig.caller.lost, "the loss is told")
    assert rig.caller.lost[0][0] == [broken]


def big(size):
    return b"x" * size


def test_a_value_that_is_too_large_is_an_error(rig, monkeypatch):
    monkeypatch.setattr(limits, "OBJECT_BYTES_MAX", 1_000)
    connection = rig.connect()
    assert rig.value(rig.call(connection, big, 900)) == big(900)
    with pytest.raises(exceptions.RayTaskError, match="ObjectStoreFullError: big returned"):
        rig.value(rig.call(connection, big, 1_001))
