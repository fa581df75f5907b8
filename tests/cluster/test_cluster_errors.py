"""Errors of user code: their class, their traceback, their way through tasks and actors."""

from __future__ import annotations

import threading

import pytest

import shoal
from shoal.exceptions import ActorDiedError, RayActorError, RayError, RayTaskError
from tests.cluster.remote_code import Counter, increment

pytestmark = pytest.mark.usefixtures("one_node")


class RecipeError(Exception):
    """A user's own class with a signature of its own."""

    def __init__(self, dish: str, spoons: int) -> None:
        super().__init__(dish, spoons)
        self.dish = dish
        self.spoons = spoons

    def __str__(self) -> str:
        return f"{self.dish} wants {self.spoons} spoons"


class StubbornError(Exception):
    """Pickles, but cannot be made again: its constructor wants more than `args` has."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")


@shoal.remote
def cook() -> None:
    raise RecipeError("soup", 3)


@shoal.remote
def dine() -> object:
    return shoal.get(cook.remote())


@shoal.remote
def hold_a_lock() -> object:
    return threading.Lock()


@shoal.remote
def raise_with_a_lock() -> None:
    error = RuntimeError("has a lock")
    error.lock = threading.Lock()
    raise error


@shoal.remote(num_cpus=0)
class Fragile:
    def __init__(self) -> None:
        raise RecipeError("cake", 1)

    def ping(self) -> None:
        return


def test_an_error_is_the_users_class_and_the_task_error_at_once():
    with pytest.raises(RecipeError) as caught:
        shoal.get(cook.remote())
    error = caught.value
    assert isinstance(error, RayTaskError)
    assert isinstance(error, RayError)
    assert (error.dish, error.spoons) == ("soup", 3)
    assert isinstance(error.cause, RecipeError)


def test_the_message_has_the_remote_traceback():
    with pytest.raises(RayTaskError) as caught:
        shoal.get(cook.remote())
    text = str(caught.value)
    assert "cook" in text
    assert 'raise RecipeError("soup", 3)' in text
    assert "soup wants 3 spoons" in text


def test_an_error_passes_through_the_tasks_that_wait_for_it():
    with pytest.raises(RecipeError) as caught:
        shoal.get(dine.remote())
    assert 'raise RecipeError("soup", 3)' in str(caught.value)
    assert "dine" in str(caught.value)


def test_a_task_with_a_failed_argument_fails_like_it_and_does_not_run():
    with pytest.raises(RecipeError):
        shoal.get(increment.remote(cook.remote()))


def test_one_failed_value_fails_the_whole_get():
    with pytest.raises(RecipeError):
        shoal.get([increment.remote(1), cook.remote()])


def test_an_actor_method_that_raises_leaves_the_actor_alive():
    counter = Counter.remote()
    with pytest.raises(ValueError, match="too sour"):
        shoal.get(counter.fail.remote("too sour"))
    assert shoal.get(counter.add.remote()) == 1


def test_a_value_that_cannot_be_pickled_is_an_error_naming_the_function():
    with pytest.raises(RayTaskError, match="hold_a_lock"):
        shoal.get(hold_a_lock.remote())


def test_an_error_that_cannot_be_pickled_still_tells_what_happened():
    with pytest.raises(RayTaskError, match="has a lock"):
        shoal.get(raise_with_a_lock.remote())


def test_an_error_that_cannot_be_made_again_still_tells_what_happened():
    def fail() -> None:
        raise StubbornError("salt", "pepper")

    with pytest.raises(RayTaskError, match="salt and pepper"):
        shoal.get(shoal.remote(fail).remote())


def test_an_argument_that_cannot_be_pickled_is_an_error_at_the_call():
    with pytest.raises(TypeError, match="lock"):
        increment.remote(threading.Lock())


def test_a_constructor_that_raises_kills_the_actor_with_its_traceback():
    fragile = Fragile.remote()
    with pytest.raises(ActorDiedError, match="cake wants 1 spoons") as caught:
        shoal.get(fragile.ping.remote())
    assert isinstance(caught.value, RayActorError)
    assert caught.value.cause.name == "CREATION_FAILED"
    with pytest.raises(ActorDiedError):
        shoal.get(fragile.ping.remote())


def test_system_exit_in_a_task_is_an_error_and_no_hang():
    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(RayError):
        shoal.get(shoal.remote(max_retries=0)(leave).remote(), timeout=20)


@shoal.remote(num_cpus=0)
class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        if not self.name:
            raise ValueError("no name yet")
        return f"Named({self.name})"

    def fail(self) -> None:
        raise RecipeError("soup", 3)

    async def fail_later(self) -> None:
        raise RecipeError("cake", 1)


@shoal.remote(num_cpus=0)
class Plain:
    def fail(self) -> None:
        raise RecipeError("soup", 3)


def test_an_actor_says_in_its_errors_who_it_is() -> None:
    named = Named.remote("ann")
    for method in (named.fail, named.fail_later):
        with pytest.raises(RecipeError, match=r"repr=Named\(ann\)\)") as found:
            shoal.get(method.remote(), timeout=20)
        assert found.value.actor_repr == "Named(ann)"
        assert found.value.actor_id in str(found.value)
    with pytest.raises(RecipeError, match=r"repr=<.*Plain object at "):
        shoal.get(Plain.remote().fail.remote(), timeout=20)
    with pytest.raises(RecipeError, match="whose __repr__ raised ValueError"):
        shoal.get(Named.remote("").fail.remote(), timeout=20)
    with pytest.raises(RecipeError) as of_task:
        shoal.get(cook.remote(), timeout=20)
    assert "repr=" not in str(of_task.value)
