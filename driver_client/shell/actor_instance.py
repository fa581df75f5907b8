"""The one actor of a worker: its instance and how its calls run."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client import limits
from driver_client.shell import leaving, running
from driver_client.shell.function_store import FunctionStore, extend_module_path
from driver_client.shell.given_arguments import arguments_of
from driver_client.shell.lanes import Concurrent, concurrent_for
from driver_client.shell.leaving import ActorExit
from driver_client.shell.outcome import error_outcome
from driver_client.shell.task_events import ACTOR_CREATION

if TYPE_CHECKING:
    from driver_client.shell.executor import CreationAnswer, Executor


class ActorInstance:
    """Constructed on the main thread; methods are looked up once."""

    def __init__(
        self, message: pb.CreateActor, functions: FunctionStore, executor: Executor
    ) -> None:
        self.message = message
        self.instance: Any = None
        self.concurrent: Concurrent | None = concurrent_for(message, executor)
        self._functions = functions
        self._executor = executor
        self._methods: dict[str, Callable[..., Any]] = {}
        self._failed: BaseException | None = None
        self.full_name = message.class_definition.name
        """What the runtime context calls the constructor; and methods, behind it."""

    def construct(self, answer: CreationAnswer) -> None:
        """Runs the constructor. Main thread."""
        message = self.message
        extend_module_path(message.sys_path)
        created = pb.ActorCreated(actor_id=message.actor_id, incarnation=message.incarnation)
        name = f"{message.class_definition.name}.__init__"
        context = running.Running(
            message.actor_id, name, self, message.placement_group_id, message.capture_child_tasks
        )
        token = running.current.set(context)
        started_ns = time.perf_counter_ns()
        try:
            class_ = self._functions.load(message.class_definition.hash)
            self.full_name = f"{class_.__module__}.{class_.__qualname__}"
            args, kwargs = arguments_of(message.payload, message)
            build = functools.partial(class_, *args, **kwargs)
            lane = self.concurrent
            self.instance = build() if lane is None else lane.construct(build)
            created.ok = True
            created.repr_name = type(self.instance).__name__
        except BaseException as error:  # noqa: BLE001 - user code may raise anything; it is the answer
            self._failed = error
            self._executor.exiting = True
            if isinstance(error, (ActorExit, SystemExit)):
                leaving.run_exit_handlers()  # the owner has the process killed at once
            created.error = error_outcome(error, name, self._executor.node_id, self)[0]
        finally:
            running.current.reset(token)
        self._note_creation(started_ns, ok=created.ok)
        answer(created)
        if created.ok and self.concurrent is not None:
            self.concurrent.start()

    def _note_creation(self, started_ns: int, *, ok: bool) -> None:
        message = self.message
        if message.class_definition.without_events:
            return
        task = message.actor_id
        took_us = (time.perf_counter_ns() - started_ns) // 1000
        kind = ACTOR_CREATION + (pb.RESULT_KIND_VALUE if ok else pb.RESULT_KIND_ERROR)
        name = f"{message.class_definition.name}.__init__"
        sequence = int.from_bytes(task[-8:], "big")
        self._executor.events.add_alone((task[:-8], sequence, name, started_ns, took_us, kind))

    def own_repr(self) -> str:
        """What the user's class says of the instance; "" before there is one."""
        if self.instance is None:
            return ""
        try:
            text = repr(self.instance)
        except Exception as error:  # noqa: BLE001 - it is the user's, and an error is told already
            text = f"<{type(self.instance).__name__}, whose __repr__ raised {error!r}>"
        return text[: limits.ACTOR_REPR_CHARS_MAX]

    def method(self, name: str) -> Callable[..., Any]:
        """A bound method.

        Raises:
            AttributeError: the class has no such method.
        """
        method = self._methods.get(name)
        if method is None:
            method = self._methods[name] = self._look_up(name)
        return method

    def _look_up(self, name: str) -> Callable[..., Any]:
        if self._failed is not None:
            raise self._failed
        if name == "__ray_ready__":
            return lambda: True
        if name == "__ray_terminate__":
            return _terminate
        if name == "__ray_call__":
            return self._call_with_instance
        return getattr(self.instance, name)

    def _call_with_instance(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(self.instance, *args, **kwargs)


def _terminate() -> None:
    raise ActorExit("terminated by its handle")
