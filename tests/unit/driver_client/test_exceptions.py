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


OF_RAY = [
    ("ObjectLostError", ("ab", b"h:1", "f.py:3"), "object_ref_hex owner_address call_site"),
    ("ObjectFreedError", ("ab", None, ""), "object_ref_hex owner_address call_site"),
    ("OwnerDiedError", ("ab", b"h:1", "f.py:3"), "object_ref_hex owner_address call_site"),
    (
        "ObjectReconstructionFailedError",
        ("ab", 3, "too often", b"h:1", "f.py:3"),
        "object_ref_hex reason reason_message owner_address call_site",
    ),
    ("RayActorError", ("ab", "m", True, True), "actor_id error_msg actor_init_failed preempted"),
    ("ActorUnavailableError", ("m", None), "error_msg actor_id"),
    ("TaskCancelledError", ("ab", "m"), "task_id error_message"),
    ("RaySystemError", ("m", "tb"), "client_exc traceback_str"),
    ("RpcError", ("m", 14), "message rpc_code"),
    ("NodeDiedError", ("m",), "message"),
    ("OutOfMemoryError", ("m",), "message"),
    ("AuthenticationError", ("m",), "message"),
    ("RuntimeEnvSetupError", ("m",), "error_message"),
    ("TaskUnschedulableError", ("m",), "error_message"),
    ("ActorUnschedulableError", ("m",), "error_message"),
    ("ActorAlreadyExistsError", ("m",), "error_message"),
    ("ActorHandleNotFoundError", ("m",), "error_message"),
    ("GetTimeoutError", ("m",), ""),
    (
        "RayTaskError",
        ("f", "tb", None, "title", 7, "10.0.0.1", "A(7)", "cd"),
        "function_name traceback_str cause proctitle pid ip actor_repr actor_id",
    ),
]
WITHOUT_ARGUMENTS = [
    "TaskCancelledError",
    "RayActorError",
    "ActorDiedError",
    "ActorUnavailableError",
    "WorkerCrashedError",
    "RuntimeEnvSetupError",
    "TaskPlacementGroupRemoved",
    "ActorPlacementGroupRemoved",
    "LocalRayletDiedError",
    "GetTimeoutError",
]


@pytest.mark.parametrize(("name", "given", "kept"), OF_RAY, ids=[row[0] for row in OF_RAY])
def test_errors_are_made_as_in_ray_and_keep_what_they_were_given(name, given, kept):
    error = getattr(exceptions, name)(*given)
    for one in (error, pickle.loads(pickle.dumps(error))):
        for attribute, value in zip(kept.split(), given, strict=False):
            assert getattr(one, attribute) == value
        assert str(one) == str(error)


@pytest.mark.parametrize("name", WITHOUT_ARGUMENTS)
def test_errors_that_ray_makes_without_arguments_have_a_text_here_too(name):
    error = getattr(exceptions, name)()
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(error) or name == "GetTimeoutError"


def test_an_actor_that_died_of_its_constructor_says_so():
    raised = RayTaskError("A.__init__", "Traceback: bad", ValueError("bad"), actor_id="cd")
    error = exceptions.ActorDiedError(raised)
    assert error.actor_init_failed
    assert error.actor_id == "cd"
    assert error.cause is ActorDeathCause.CREATION_FAILED
    assert "Traceback: bad" in str(error)
    assert not exceptions.ActorDiedError().actor_init_failed
    preempted = exceptions.ActorDiedError(ActorDeathCause.PREEMPTED, "ab", message="m")
    assert preempted.preempted


def test_what_the_users_error_says_of_itself_is_not_replaced():
    class Net(Exception):
        def __init__(self, ip):
            super().__init__(ip)
            self.ip = ip

    error = RayTaskError("f", "tb", Net("mine"), ip="10.0.0.1").as_instanceof_cause()
    assert error.ip == "mine"
    assert error.function_name == "f"
