"""Errors cross processes: nothing of them is lost on the way."""

import inspect
import pickle
import threading

import pytest

from driver_client import exceptions
from driver_client.exceptions import ActorDeathCause, RayTaskError, pickle_error

MADE = [
    exceptions.TaskCancelledError("ab"),
    exceptions.GetTimeoutError("late", "infeasible"),
    RayTaskError("f", "tb", KeyError("k"), "f", 7, "10.0.0.1", "A(7)", "cd", node_id="ab"),
    exceptions.WorkerCrashedError("m", "ab"),
    exceptions.NodeDiedError("m", "ab", "PREEMPTED"),
    exceptions.RayActorError("ab", "m", preempted=True),
    exceptions.ActorDiedError(
        ActorDeathCause.KILLED, "ab", message="m", node_id="n", owner_id="o", time=1.5
    ),
    exceptions.ActorUnavailableError("m", "ab"),
    exceptions.ActorPlacementGroupRemoved("m"),
    exceptions.ObjectLostError("ab"),
    exceptions.OwnerDiedError("ab", b"h:1", "f.py:3"),
    exceptions.ReferenceCountingAssertionError("ab"),
]
PLAIN = [
    class_
    for _, class_ in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(class_, exceptions.RayError) and "__init__" not in class_.__dict__
]


@pytest.mark.parametrize("error", MADE, ids=lambda error: type(error).__name__)
def test_an_error_comes_back_as_it_was(error):
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert str(back) == str(error)
    facts = {name: value for name, value in vars(error).items() if name != "cause"}
    assert {name: vars(back)[name] for name in facts} == facts
    assert repr(getattr(back, "cause", None)) == repr(getattr(error, "cause", None))


@pytest.mark.parametrize("class_", PLAIN, ids=lambda class_: class_.__name__)
def test_every_error_class_survives_pickling(class_):
    back = pickle.loads(pickle_error(class_("text")))
    assert type(back) is class_
    assert "text" in str(back)


class Own(Exception):
    def __init__(self, code, detail=""):
        super().__init__(code, detail)
        self.code = code


class Awkward(Exception):
    def __new__(cls, one, two):
        return super().__new__(cls, one, two)


class Final(Exception):
    def __init_subclass__(cls):
        raise RuntimeError("no subclass of this one")


class OwnArgs(Exception):
    @property
    def args(self):
        return ("mine",)


def test_a_tasks_error_is_the_users_class_too_and_has_its_attributes():
    error = RayTaskError("f", "traceback here", Own(5, "d")).as_instanceof_cause()
    assert isinstance(error, Own)
    assert isinstance(error, RayTaskError)
    assert error.code == 5
    assert error.cause.args == (5, "d")
    assert "traceback here" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, Own)
    assert again.code == 5


def test_a_class_that_cannot_be_joined_stays_a_task_error_with_its_cause():
    error = RayTaskError("f", "tb", Final(1)).as_instanceof_cause()
    assert type(error) is RayTaskError
    assert isinstance(error.cause, Final)


@pytest.mark.parametrize(
    "cause",
    [
        Awkward(1, 2),
        OwnArgs(),
        ExceptionGroup("two", [ValueError(1), KeyError(2)]),
        OSError(2, "x"),
    ],
    ids=lambda cause: type(cause).__name__,
)
def test_a_class_that_insists_on_its_arguments_is_joined_too(cause):
    error = RayTaskError("f", "tb", cause).as_instanceof_cause()
    assert isinstance(error, RayTaskError)
    assert isinstance(error, type(cause))
    assert error.args == cause.args


def test_our_own_errors_are_raised_as_task_errors_around_them():
    inner = exceptions.GetTimeoutError("late")
    error = RayTaskError("f", "tb", inner)
    assert error.as_instanceof_cause().cause is inner


def test_an_error_that_cannot_be_pickled_travels_as_its_text():
    error = Own(5)
    error.lock = threading.Lock()
    back = pickle.loads(pickle_error(error))
    assert isinstance(back, exceptions.RaySystemError)
    assert "Own" in str(back)
    assert "cannot be pickled" in str(back)


def test_actor_deaths_are_caught_by_their_parents():
    assert issubclass(exceptions.ActorPlacementGroupRemoved, exceptions.ActorDiedError)
    assert issubclass(exceptions.ActorDiedError, exceptions.RayActorError)
    assert issubclass(exceptions.GetTimeoutError, TimeoutError)
    assert issubclass(exceptions.NodeDiedError, exceptions.WorkerCrashedError)
