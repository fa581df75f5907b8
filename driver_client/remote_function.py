"""Remote functions: what `@remote` makes of a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from driver_client import limits, process, strategies
from driver_client.arguments import pack
from driver_client.core import options as option_rules
from driver_client.core.call import CallTemplate, returns_of
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.core.shapes import is_sequence
from driver_client.core.signatures import Signature
from driver_client.object_ref import ObjectRef
from driver_client.shared_body import SharedBody
from driver_client.shell import running
from driver_client.shell.runtime import Runtime

P = ParamSpec("P")
R = TypeVar("R")


class RemoteFunction(Generic[P, R]):
    """Calls run in a worker process. `options` gives a variant, this one stays as it is."""

    def __init__(self, function: Callable[P, R], options: dict[str, Any]) -> None:
        option_rules.check(options, option_rules.TASK_OPTIONS, "a remote function")
        strategies.check_placement(options)
        self._function = function
        self._options = options
        self._body = SharedBody(function)
        self._prepared_for = b""
        """The id of this process in its cluster: the runtime itself must not live on in here."""
        self._template: CallTemplate | None = None
        self._key: SchedulingKey | None = None
        self._signature: Signature | None = None
        functools.update_wrapper(self, function)

    def __call__(self, *_args: P.args, **_kwargs: P.kwargs) -> R:
        """Not allowed: the function runs in a worker."""
        raise TypeError(
            f"remote functions cannot be called directly: use {self._function.__name__}.remote()"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._function, self._options)

    def options(self, **options: Any) -> RemoteFunction[P, R]:
        """The same function with other options."""
        variant: RemoteFunction[P, R] = RemoteFunction(self._function, {**self._options, **options})
        variant._body = self._body
        return variant

    def remote(self, *args: Any, **kwargs: Any) -> ObjectRef[R]:
        """Submits one call; returns at once. With `num_returns=n`: a list of n references.

        Arguments may be references to values of the declared types, hence no parameter types here.

        Raises:
            TypeError: the function does not take these arguments, or they cannot be pickled.
        """
        runtime = process.get_runtime()
        if runtime.facts.owner_id is not self._prepared_for or running.current.get() is not None:
            self._prepare(runtime)
        assert self._key is not None, "prepared above"
        assert self._template is not None, "prepared above"
        if self._signature is not None:
            self._signature.check(self._template.call_name, args, kwargs)
        payload, extra = pack(args, kwargs)
        return runtime.submit(self._key, self._template, payload, extra)

    def _remote(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ObjectRef[R]:
        """The same as `.options(…).remote(…)`, as Ray's programs also write it."""
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def bind(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The call as data, for graph libraries: (remote function, args, kwargs)."""
        return self, args, kwargs

    def _returns(self) -> Any:
        """Generators stream unless the option says otherwise (RAY_FACTS C1)."""
        option = self._options.get("num_returns")
        if option is None and inspect.isgeneratorfunction(self._function):
            return "streaming"
        return option

    def _max_calls(self) -> int:
        """By default a worker with GPUs ends after its call: libraries keep their memory."""
        option = self._options.get("max_calls")
        if option is None:
            return 1 if self._options.get("num_gpus") else 0
        return option

    def _prepare(self, runtime: Runtime) -> None:
        options = self._options
        body = self._body.get()
        self._signature = self._body.signature()
        key = strategies.scheduling_key(options, for_actor=False, name=self._function.__name__)
        known = self._key
        same = runtime.facts.owner_id is self._prepared_for
        if same and known is not None and known.digest == key.digest:
            return
        retry_exceptions: Any = options.get("retry_exceptions") or False
        if is_sequence(retry_exceptions):
            retry_exceptions = tuple(retry_exceptions)
        retries = options.get("max_retries")
        self._key = key
        self._template = CallTemplate(
            body=body,
            call_name=options.get("name") or self._function.__name__,
            **returns_of(self._returns()),
            backpressure=option_rules.backpressure_of(options),
            max_retries=limits.TASK_RETRIES_DEFAULT if retries is None else retries,
            retry_exceptions=retry_exceptions,
            placement_group_id=key.request.placement_group_id,
            capture_child_tasks=strategies.captures_children(options),
            max_calls=self._max_calls(),
            without_events=options.get("enable_task_events") is False,
        )
        self._prepared_for = runtime.facts.owner_id


def _rebuild(function: Callable[..., Any], options: dict[str, Any]) -> RemoteFunction[..., Any]:
    return RemoteFunction(function, options)
