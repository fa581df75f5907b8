"""Actors: state, order, concurrency, handles, names, and how they end."""

from __future__ import annotations

import os

import pytest

import shoal
from shoal.exceptions import ActorDiedError, PendingCallsLimitExceeded
from tests.cluster.remote_code import AsyncMeeting, Counter, Meeting, pass_gate
from tests.cluster.waiting import until, until_gone

pytestmark = pytest.mark.usefixtures("one_node")


@shoal.remote(num_cpus=0)
class Recorder:
    def __init__(self) -> None:
        self.seen: list[int] = []

    def record(self, number: int) -> None:
        self.seen.append(number)

    def all(self) -> list[int]:
        return self.seen


@shoal.remote(num_cpus=0)
class Mixed:
    """A class with one coroutine method is an async actor."""

    def __init__(self) -> None:
        self.value = 1

    async def awaited(self) -> int:
        return self.value

    def plain(self) -> int:
        return self.value + 1


@shoal.remote(num_cpus=0)
class Leaver:
    def pid(self) -> int:
        return os.getpid()

    def leave(self) -> None:
        shoal.actor.exit_actor()


@shoal.remote
def add_through(counter: object, amount: int) -> int:
    return shoal.get(counter.add.remote(amount))


def test_state_stays_between_calls():
    counter = Counter.remote(10)
    assert shoal.get([counter.add.remote() for _ in range(3)]) == [11, 12, 13]


def test_calls_of_one_caller_run_in_the_order_of_submission():
    recorder = Recorder.remote()
    for number in range(1000):
        recorder.record.remote(number)
    assert shoal.get(recorder.all.remote()) == list(range(1000))


def test_order_holds_when_an_argument_is_late(gate):
    recorder = Recorder.remote()

    def late(path: str) -> int:
        pass_gate(path)
        return 0

    recorder.record.remote(shoal.remote(num_cpus=0)(late).remote(gate.path))
    for number in range(1, 5):
        recorder.record.remote(number)
    gate.open()
    assert shoal.get(recorder.all.remote()) == [0, 1, 2, 3, 4]


def test_two_actors_are_two_processes():
    first, second = Counter.remote(), Counter.remote()
    pids = shoal.get([first.pid.remote(), second.pid.remote()])
    assert len({*pids, os.getpid()}) == 3


def test_a_threaded_actor_runs_calls_at_once():
    meeting = Meeting.options(max_concurrency=4).remote(4)
    assert sorted(shoal.get([meeting.join.remote() for _ in range(4)])) == [0, 1, 2, 3]


def test_an_async_actor_runs_coroutines_at_once():
    meeting = AsyncMeeting.remote(50)
    assert shoal.get([meeting.join.remote() for _ in range(50)]) == [50] * 50


def test_an_async_actor_runs_plain_methods_too():
    mixed = Mixed.remote()
    assert shoal.get([mixed.awaited.remote(), mixed.plain.remote()]) == [1, 2]


def test_a_handle_works_in_a_task_and_in_another_actor():
    counter = Counter.remote()
    assert shoal.get(add_through.remote(counter, 5)) == 5

    @shoal.remote(num_cpus=0)
    class Friend:
        def __init__(self, other: object) -> None:
            self.other = other

        def use(self) -> int:
            return shoal.get(self.other.add.remote(1))

    assert shoal.get(Friend.remote(counter).use.remote()) == 6


def test_an_unknown_method_is_an_attribute_error_naming_it():
    with pytest.raises(AttributeError, match="subtract"):
        Counter.remote().subtract.remote()


def test_a_class_or_method_cannot_be_called_directly():
    with pytest.raises(TypeError, match="remote"):
        Counter()
    counter = Counter.remote()
    with pytest.raises(TypeError, match="remote"):
        counter.add(1)


def test_several_returns_of_a_method():
    @shoal.remote(num_cpus=0)
    class Pair:
        @shoal.method(num_returns=2)
        def both(self) -> tuple[int, int]:
            return 1, 2

    left, right = Pair.remote().both.remote()
    assert shoal.get([left, right]) == [1, 2]


def test_a_named_actor_is_found_by_its_name_and_only_there():
    counter = Counter.options(name="found").remote(7)
    assert shoal.get(shoal.get_actor("found").add.remote()) == 8
    with pytest.raises(ValueError, match=r"elsewhere|found"):
        shoal.get_actor("found", namespace="elsewhere")
    shoal.kill(counter)


def test_a_name_is_per_namespace():
    here = Counter.options(name="twin").remote(1)
    there = Counter.options(name="twin", namespace="elsewhere").remote(2)
    assert shoal.get(shoal.get_actor("twin").add.remote()) == 2
    assert shoal.get(shoal.get_actor("twin", namespace="elsewhere").add.remote()) == 3
    for actor in (here, there):
        shoal.kill(actor)


def test_a_taken_name_is_an_error_naming_it():
    counter = Counter.options(name="taken").remote()
    shoal.get(counter.add.remote())
    with pytest.raises(ValueError, match="taken") as caught:
        Counter.options(name="taken").remote()
    assert isinstance(caught.value, shoal.exceptions.ActorAlreadyExistsError)
    shoal.kill(counter)


def test_get_if_exists_makes_one_actor_however_often_it_is_asked():
    actors = [Counter.options(name="one", get_if_exists=True).remote() for _ in range(5)]
    assert len(set(shoal.get([actor.pid.remote() for actor in actors]))) == 1
    shoal.kill(actors[0])


def test_a_name_is_free_as_soon_as_its_actor_is_killed():
    for round_number in range(20):
        counter = Counter.options(name="again").remote(round_number)
        assert shoal.get(counter.add.remote()) == round_number + 1
        shoal.kill(counter)


def test_an_unknown_name_is_a_value_error_naming_it():
    with pytest.raises(ValueError, match="nobody"):
        shoal.get_actor("nobody")
    with pytest.raises(ValueError):
        shoal.get_actor("")


def test_a_killed_actor_dies_with_its_process_and_says_so():
    counter = Counter.remote()
    pid = shoal.get(counter.pid.remote())
    shoal.kill(counter)
    until_gone(pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(counter.add.remote())
    assert caught.value.cause.name == "KILLED"
    assert caught.value.actor_id == counter._actor_id.hex()


def test_a_call_that_runs_while_its_actor_is_killed_fails(gate):
    counter = Counter.remote()
    shoal.get(counter.pid.remote())
    running = counter.gated.remote(gate.path)
    shoal.kill(counter)
    with pytest.raises(ActorDiedError):
        shoal.get(running)


def test_kill_takes_only_actors():
    with pytest.raises(ValueError):
        shoal.kill(shoal.put(1))


def test_an_actor_ends_when_its_last_handle_is_gone():
    counter = Counter.remote()
    pid = shoal.get(counter.pid.remote())
    del counter
    until_gone(pid)


def test_calls_already_made_still_run_after_the_last_handle_is_gone():
    assert shoal.get(Counter.remote(1).add.remote(2)) == 3


def test_an_actor_that_leaves_is_dead_with_that_cause():
    leaver = Leaver.remote()
    pid = shoal.get(leaver.pid.remote())
    leaver.leave.remote()
    until_gone(pid)
    with pytest.raises(ActorDiedError) as caught:
        shoal.get(leaver.pid.remote())
    assert caught.value.cause.name == "EXITED"


def test_pending_calls_beyond_the_limit_are_refused(gate):
    counter = Counter.options(max_pending_calls=2).remote()
    shoal.get(counter.pid.remote())

    def submit() -> list[object]:
        return [counter.gated.remote(gate.path) for _ in range(10)]

    with pytest.raises(PendingCallsLimitExceeded):
        submit()
    gate.open()


def test_actors_hold_the_cpus_they_ask_for_and_give_them_back(settled):
    held = [Counter.options(num_cpus=1).remote() for _ in range(2)]
    shoal.get([actor.pid.remote() for actor in held])
    until(lambda: shoal.available_resources().get("CPU") == 2, "two CPUs held")
    for actor in held:
        shoal.kill(actor)


def test_the_context_inside_an_actor_names_it():
    @shoal.remote(num_cpus=0)
    class Looker:
        def look(self) -> tuple[str, str, str]:
            context = shoal.get_runtime_context()
            return context.get_actor_id(), context.get_actor_name(), context.namespace

    looker = Looker.options(name="looker").remote()
    assert shoal.get(looker.look.remote()) == (looker._actor_id.hex(), "looker", "tests")


def test_fifty_actors_answer():
    actors = [Counter.remote(number) for number in range(50)]
    assert shoal.get([actor.add.remote() for actor in actors]) == list(range(1, 51))
