"""Handles of actors: what users call.

A handle counts as a reference to the actor's creation object.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from cluster_common import ids
from driver_client import exceptions, object_ref, process
from driver_client.arguments import pack
from driver_client.core import options as option_rules
from driver_client.core import signatures
from driver_client.core.call import CallExtra, CallTemplate, returns_of
from driver_client.core.shapes import is_sequence
from driver_client.object_ref import ObjectRef, entry_of
from driver_client.objects import entry as entries
from driver_client.objects import serialization
from driver_client.printed_id import ActorID
from driver_client.shell.actor_client import ActorClient

if TYPE_CHECKING:
    from driver_client.shell.runtime import Runtime

HIDDEN_METHODS = ("__ray_ready__", "__ray_call__", "__ray_terminate__")


class HandleFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a process needs to call an actor; travels inside handles and in the GCS's name registry.

    `methods`: name -> options given with `@method`. `owner_address` empty: hosted by the GCS.
    """

    actor_id: bytes
    owner_address: str
    class_name: str
    module: str
    methods: dict[str, dict[str, Any]]
    max_task_retries: int = 0
    max_pending_calls: int = -1
    detached: bool = False
    name: str = ""
    namespace: str = ""
    out_of_order: bool = False
    without_events: bool = False
    signatures: dict[str, str] = {}
    """What the methods take (`core.signatures`)."""
    groups: list[str] = []
    """Names of the concurrency groups."""


def encode(facts: HandleFacts) -> bytes:
    """Bytes of the facts."""
    return msgspec.msgpack.encode(facts)


def decode(data: bytes) -> HandleFacts:
    """Facts of the bytes."""
    return msgspec.msgpack.decode(data, type=HandleFacts)


class ActorMethod:
    """`handle.method`: `.remote(...)` calls it."""

    __slots__ = (
        "_borrowed",
        "_client",
        "_facts",
        "_limit",
        "_ref",
        "_runtime",
        "_signature",
        "_template",
    )

    def __init__(
        self, facts: HandleFacts, ref: ObjectRef[Any] | None, template: CallTemplate
    ) -> None:
        # Not the handle: it keeps its methods, and a cycle would keep the actor until the next
        # garbage collection.
        self._facts = facts
        self._ref = ref
        self._template = template
        self._signature = signatures.read(
            facts.signatures.get(template.method_name, signatures.UNKNOWN)
        )
        self._runtime: Runtime | None = None
        self._client: ActorClient | None = None
        self._limit = -1
        self._borrowed: ObjectRef[Any] | None = None

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Not allowed: the actor lives in another process."""
        raise TypeError(
            f"actor methods cannot be called directly: use {self._template.method_name}.remote()"
        )

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Submits one call; calls of one process run in the order they were submitted.

        Raises:
            TypeError: the method does not take these arguments, or they cannot be pickled.
            PendingCallsLimitExceeded: as many calls wait as `max_pending_calls` allows.
        """
        runtime = self._runtime
        if runtime is None or runtime.closed:
            runtime = self._bind_runtime()
        client = self._client
        assert client is not None, "bound above"
        if self._signature is not None:
            self._signature.check(self._template.call_name, args, kwargs)
        if self._limit > 0 and not client.reserve(self._limit):
            raise exceptions.PendingCallsLimitExceeded(
                f"{client.pending} calls of {client.name} are pending, "
                f"max_pending_calls is {self._limit}"
            )
        payload, extra = pack(args, kwargs)
        if self._borrowed is not None:
            # A borrowed actor lives at least until what was called here is answered.
            if extra is None:
                extra = CallExtra([], [self._borrowed])
            else:
                extra.contained.append(self._borrowed)
        return runtime.submit(client, self._template, payload, extra)

    def options(self, **options: Any) -> ActorMethod:
        """The same method with other options."""
        option_rules.check(options, option_rules.METHOD_OPTIONS, "an actor method")
        self._check_group(options.get("concurrency_group"))
        old = self._template
        template = _template(
            old.method_name,
            {
                "num_returns": (
                    "streaming" if old.streaming else "dynamic" if old.dynamic else old.num_returns
                ),
                "_generator_backpressure_num_objects": old.backpressure or None,
                "max_task_retries": old.max_retries,
                "retry_exceptions": old.retry_exceptions,
                "concurrency_group": old.concurrency_group,
                "enable_task_events": not old.without_events,
                **options,
            },
            old.max_retries,
            options.get("name") or old.call_name,
        )
        return ActorMethod(self._facts, self._ref, template)

    def _remote(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """The same as `.options(…).remote(…)`, as Ray's programs also write it."""
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def _check_group(self, group: str | None) -> None:
        groups = self._facts.groups
        if group and group not in groups:
            raise ValueError(
                f"{self._facts.class_name} has no concurrency group {group!r}; "
                f"it has {', '.join(groups) or 'none'}"
            )

    def bind(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The call as data, for graph libraries: (method, args, kwargs)."""
        return self, args, kwargs

    def _bind_runtime(self) -> Runtime:
        runtime = self._runtime = process.get_runtime()
        self._client = client_in(runtime, self._facts)
        self._limit = self._facts.max_pending_calls
        if self._ref is not None and type(entry_of(self._ref).key) is bytes:
            self._borrowed = self._ref
        return runtime


def _template(
    name: str, options: dict[str, Any], default_retries: int, call_name: str
) -> CallTemplate:
    retries = options.get("max_task_retries")
    rule: Any = options.get("retry_exceptions") or False
    if isinstance(rule, bytes):
        rule = serialization.loads(rule)
    return CallTemplate(
        method_name=name,
        call_name=call_name,
        **returns_of(options.get("num_returns")),
        backpressure=option_rules.backpressure_of(options),
        max_retries=default_retries if retries is None else retries,
        retry_exceptions=tuple(rule) if is_sequence(rule) else rule,
        concurrency_group=options.get("concurrency_group") or "",
        without_events=options.get("enable_task_events") is False,
    )


def _travelling(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a method as handles carry them: classes of exceptions are pickled."""
    rule = options.get("retry_exceptions")
    if is_sequence(rule):
        return {**options, "retry_exceptions": serialization.dumps(tuple(rule))}
    return dict(options)


class ActorHandle:
    """Methods of the actor's class are attributes.

    Picklable: a copy elsewhere borrows the actor.
    """

    def __init__(self, facts: HandleFacts, ref: ObjectRef[Any] | None) -> None:
        self._facts = facts
        self._ref = ref

    def __getattr__(self, name: str) -> ActorMethod:
        facts: HandleFacts = self.__dict__["_facts"]
        options = facts.methods.get(name)
        if options is None:
            if name not in HIDDEN_METHODS:
                raise AttributeError(f"actor class {facts.class_name} has no method {name!r}")
            options = {}
        if facts.without_events:
            options = {"enable_task_events": False, **options}
        call_name = f"{facts.class_name}.{name}"
        template = _template(name, options, facts.max_task_retries, call_name)
        method = ActorMethod(facts, self._ref, template)
        self.__dict__[name] = method
        return method

    def __repr__(self) -> str:
        return f"Actor({self._facts.class_name}, {self._facts.actor_id.hex()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and other._facts.actor_id == self._facts.actor_id

    def __hash__(self) -> int:
        return hash(self._facts.actor_id)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._ref is not None:
            # Pins the actor while the bytes travel; the receiver registers itself as a borrower.
            self._ref.__reduce__()
        return handle_from_record, (encode(self._facts),)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._facts.methods, *HIDDEN_METHODS})

    @property
    def _actor_id(self) -> ActorID:
        return ActorID(self._facts.actor_id)

    @property
    def _ray_actor_id(self) -> ActorID:
        """Ray's name for the id."""
        return self._actor_id


def client_in(runtime: Runtime, facts: HandleFacts) -> ActorClient:
    """The process's one client of an actor; starts to watch an actor that others host."""
    client = runtime.clients.get(facts.actor_id)
    if client is None:
        client = ActorClient(facts.actor_id, runtime.services, facts.class_name)
        client.out_of_order = facts.out_of_order
        # Two threads may come here at once: the first one's client is everybody's.
        known = runtime.clients.setdefault(facts.actor_id, client)
        if known is client:
            runtime.io.post(lambda: runtime.watches().watch(facts.actor_id, facts.owner_address))
        client = known
    return client


def handle_from_record(data: bytes) -> ActorHandle:
    """A handle from bytes: borrows the actor, unless it is detached or this process is the actor.

    A handle an actor holds to itself does not keep it alive (CONTRACT: Actors and errors).
    """
    facts = decode(data)
    ref: ObjectRef[Any] | None = None
    runtime = process.runtime_if_any()
    own = runtime is not None and runtime.facts.actor_id == facts.actor_id
    if facts.owner_address and object_ref.resolve is not None and not own:
        ref = object_ref.resolve(ids.object_id(facts.actor_id), facts.owner_address)
        serialization.note_reference(ref)
        entry = entry_of(ref)
        if entry.state == entries.ERROR:
            error = serialization.loads(entry.data)
            if isinstance(error, exceptions.ObjectFreedError):
                ref = None  # the actor is over; calls say why
    return ActorHandle(facts, ref)


def methods_of(class_: type) -> tuple[dict[str, dict[str, Any]], bool]:
    """(public and dunder methods with their `@method` options, whether any is `async def`)."""
    methods: dict[str, dict[str, Any]] = {}
    is_async = False
    for name, member in inspect.getmembers(class_, callable):
        if inspect.isclass(member):
            continue  # a class inside the class is no method
        if name.startswith("__") and (not inspect.isfunction(member) or name == "__init__"):
            continue
        methods[name] = _travelling(getattr(member, "__shoal_method__", {}))
        if inspect.isgeneratorfunction(member) or inspect.isasyncgenfunction(member):
            methods[name].setdefault("num_returns", "streaming")
        is_async = is_async or inspect.iscoroutinefunction(member)
        is_async = is_async or inspect.isasyncgenfunction(member)
    return methods, is_async
