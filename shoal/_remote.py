"""The decorators `remote` and `method`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from driver_client import process
from driver_client.actor_class import ActorClass
from driver_client.core import options as option_rules
from driver_client.remote_function import RemoteFunction

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class _Decorator(Protocol):
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload] - a class is callable; the first wins
        self, target: type[C]
    ) -> ActorClass[C]: ...
    @overload
    def __call__(self, target: Callable[P, R]) -> RemoteFunction[P, R]: ...


@overload
def remote(  # pyright: ignore[reportOverlappingOverload] - a class is callable; the first wins
    target: type[C], /
) -> ActorClass[C]: ...
@overload
def remote(target: Callable[P, R], /) -> RemoteFunction[P, R]: ...
@overload
def remote(**options: Any) -> _Decorator: ...
def remote(*targets: Any, **options: Any) -> Any:
    """Makes a function or a class remote: `@remote`, or `@remote(num_cpus=2, …)`.

    Raises:
        TypeError: used on something that is neither a function nor a class.
        ValueError: an option that does not exist, or a value it cannot have; a coroutine function.
    """
    if targets:
        if len(targets) != 1 or options:
            raise TypeError("use @remote, or @remote(option=value, …), on one function or class")
        return _make(targets[0], {})
    if not options:
        raise TypeError("use @remote without brackets, or @remote(option=value, …)")

    def decorate(target: Any) -> Any:
        return _make(target, options)

    return decorate


def _make(target: Any, options: dict[str, Any]) -> Any:
    if isinstance(target, (ActorClass, RemoteFunction)):
        raise TypeError(f"{target!r} is remote already: use its .options(…) for a variant")
    if inspect.isclass(target):
        return ActorClass(target, options)
    if inspect.iscoroutinefunction(target):
        raise ValueError(
            f"'async def' should not be used for remote tasks: call asyncio.run(…) in a plain "
            f"function, or make {target.__name__} the method of an actor"
        )
    if callable(target) and hasattr(target, "__qualname__"):
        return RemoteFunction(target, options)
    raise TypeError(f"@remote goes on a function or a class, not on {target!r}")


@overload
def method(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def method(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def method(*functions: Any, **options: Any) -> Any:
    """Defaults of one actor method: `@method(num_returns=2)`; `@method` alone changes nothing.

    Raises:
        ValueError: an option that does not exist, or a value it cannot have.
        TypeError: not used on a function.
    """
    if functions:
        if len(functions) != 1 or options or not callable(functions[0]):
            raise TypeError("use @method(option=value, …) on a method of a class")
        return functions[0]
    option_rules.check(options, option_rules.METHOD_OPTIONS, "an actor method")

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        function.__shoal_method__ = options  # pyright: ignore[reportFunctionMemberAccess]
        return function

    return decorate


def get_gpu_ids() -> list[int]:
    """GPU devices assigned to this worker; empty in a driver."""
    return list(process.get_runtime().facts.devices.get("GPU", []))
