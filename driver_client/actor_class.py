"""Remote classes: what `@remote` makes of a class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import types_pb2 as t
from cluster_common import limits as common_limits
from cluster_common.transport.logs import get_logger
from driver_client import exceptions, limits, process, strategies
from driver_client.actor_handle import (
    ActorHandle,
    HandleFacts,
    decode,
    encode,
    handle_from_record,
    methods_of,
)
from driver_client.arguments import pack
from driver_client.core import options as option_rules
from driver_client.core import signatures
from driver_client.core.actor_spec import ActorSpec
from driver_client.detached_creation import create_detached
from driver_client.object_ref import ObjectRef
from driver_client.objects.entry import Entry
from driver_client.shared_body import SharedBody
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.runtime import Runtime

log = get_logger()

C = TypeVar("C")


class _Surface:
    """A class's methods, for all variants that `options` gives.

    Looked up at the first use: a class that refers to itself is unpickled in two steps.
    """

    __slots__ = ("_class", "_found", "_signatures")

    def __init__(self, class_: type[Any]) -> None:
        self._class = class_
        self._found: tuple[dict[str, dict[str, Any]], bool] | None = None
        self._signatures: dict[str, str] | None = None

    def get(self) -> tuple[dict[str, dict[str, Any]], bool]:
        """(methods with their options, whether any is async)."""
        if self._found is None:
            self._found = methods_of(self._class)
        return self._found

    def signatures(self) -> dict[str, str]:
        """What the methods take, by name."""
        if self._signatures is None:
            self._signatures = {
                name: signatures.of_method(self._class, name) for name in self.get()[0]
            }
        return self._signatures


class ActorClassInheritanceException(TypeError):  # noqa: N818 - Ray's name
    """A class inherits from an actor class."""


class ActorClass(Generic[C]):
    """`.remote(...)` starts an actor. `options` gives a variant, this one stays as it is."""

    def __init__(self, class_: type[C], options: dict[str, Any]) -> None:
        if options.get("name") == "":
            raise ValueError("Actor name cannot be an empty string")
        option_rules.check(options, option_rules.ACTOR_OPTIONS, "an actor class")
        strategies.check_placement(options)
        self._class = class_
        self._options = options
        self._body = SharedBody(class_)
        self._surface = _Surface(class_)
        self._groups_checked = False
        self.__wrapped__ = class_
        self.__name__ = class_.__name__
        self.__doc__ = class_.__doc__
        self.__module__ = class_.__module__

    def __call__(self, *_args: Any, **_kwargs: Any) -> C:
        """Not allowed: instances live in workers."""
        raise TypeError(
            f"actors cannot be instantiated directly: use {self._class.__name__}.remote()"
        )

    def __getattr__(self, name: str) -> Any:
        """What the plain class has: constants, static methods, class methods."""
        class_ = self.__dict__.get("_class")
        if class_ is None or name.startswith("__"):
            raise AttributeError(f"an actor class has no attribute {name!r}")
        return getattr(class_, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._class)})

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._class, self._options)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        """Not allowed: a class inherits from the plain class, not from what `@remote` made of it.

        Raises:
            ActorClassInheritanceException: always; it is a TypeError.
        """
        raise ActorClassInheritanceException(
            f"Inheriting from actor classes is not currently supported. {self._class.__name__} is "
            "one: inherit from the plain class and put @remote on the subclass"
        )

    def options(self, **options: Any) -> ActorClass[C]:
        """The same class with other options."""
        variant: ActorClass[C] = ActorClass(self._class, {**self._options, **options})
        variant._body, variant._surface = self._body, self._surface
        return variant

    def bind(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The creation as data, for graph libraries: (class, args, kwargs)."""
        return self, args, kwargs

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Starts an actor; returns a handle at once.

        Raises:
            ActorAlreadyExistsError: the name is taken (unless `get_if_exists`).
            TypeError: the constructor does not take these arguments, or they cannot be pickled.
            ValueError: options that contradict each other.
        """
        runtime = process.get_runtime()
        options = self._options
        name = options.get("name") or ""
        if options.get("get_if_exists") and not name:
            raise ValueError("get_if_exists=True needs a name")
        if len(name.encode()) > common_limits.NAME_BYTES_MAX:
            raise ValueError(f"the name has more than {common_limits.NAME_BYTES_MAX} bytes")
        signature = self._body.signature()
        if signature is not None:
            signature.check(self._class.__name__, args, kwargs)
        spec = self._spec(runtime, args, kwargs)
        if self._is_detached(runtime):
            return self._start_detached(runtime, spec)
        return self._start_owned(runtime, spec)

    def _remote(
        self,
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> ActorHandle:
        """The same as `.options(…).remote(…)`, as Ray's programs also write it."""
        return self.options(**options).remote(*(args or ()), **(kwargs or {}))

    def _is_detached(self, runtime: Runtime) -> bool:
        lifetime = self._options.get("lifetime")
        return runtime.facts.detached_by_default if lifetime is None else lifetime == "detached"

    def _methods(self) -> tuple[dict[str, dict[str, Any]], bool]:
        surface = self._surface.get()
        if not self._groups_checked:
            self._check_groups(surface[0])
            self._groups_checked = True
        return surface

    def _check_groups(self, methods: dict[str, dict[str, Any]]) -> None:
        groups = option_rules.groups_of(self._options)
        for name, options in methods.items():
            group = options.get("concurrency_group")
            if group and group not in groups:
                raise ValueError(
                    f"{self._class.__name__}.{name} names concurrency group {group!r}; the class "
                    f"has {', '.join(groups) or 'none: give concurrency_groups={name: limit}'}"
                )

    def _spec(self, runtime: Runtime, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ActorSpec:
        options = self._options
        facts = runtime.facts
        methods, is_async = self._methods()
        concurrency = options.get("max_concurrency")
        if concurrency is None:
            concurrency = limits.ASYNC_CONCURRENCY_DEFAULT if is_async else 1
        out_of_order = options.get("allow_out_of_order_execution")
        if out_of_order is None:
            out_of_order = is_async or concurrency > 1
        key = strategies.scheduling_key(options, for_actor=True, name=self._class.__name__)
        namespace = options.get("namespace") or facts.namespace
        key.request.namespace = namespace
        payload, extra = pack(args, kwargs)
        actor_id = runtime.services.next_id()
        detached = self._is_detached(runtime)
        groups = option_rules.groups_of(options)
        handle = HandleFacts(
            actor_id,
            "" if detached else facts.own_address,
            self._class.__name__,
            self._class.__module__,
            methods,
            max_task_retries=options.get("max_task_retries") or 0,
            max_pending_calls=options.get("max_pending_calls") or -1,
            detached=detached,
            name=options.get("name") or "",
            namespace=namespace,
            out_of_order=out_of_order,
            without_events=options.get("enable_task_events") is False,
            signatures=self._surface.signatures(),
            groups=list(groups),
        )
        return ActorSpec(
            actor_id=actor_id,
            class_body=self._body.get(),
            class_name=self._class.__name__,
            payload=payload,
            extra=extra,
            key=key,
            max_restarts=options.get("max_restarts") or 0,
            max_task_retries=options.get("max_task_retries") or 0,
            max_concurrency=concurrency,
            concurrency_groups=groups,
            is_async=is_async,
            out_of_order=handle.out_of_order,
            without_events=handle.without_events,
            name=handle.name,
            namespace=namespace,
            handle=encode(handle),
            capture_child_tasks=strategies.captures_children(options),
            job_id=facts.job_id,
            sys_path=facts.sys_path,
        )

    # ---- owned by this process

    def _start_owned(self, runtime: Runtime, spec: ActorSpec) -> ActorHandle:
        if spec.name:
            runtime.io.call(runtime.names_settled())
            existing = runtime.io.call(self._register(runtime, spec))
            if existing is not None:
                return existing
        services = runtime.services
        entry = Entry(_sequence(spec.actor_id), services.owner_id, services.own_address)
        entry.actor = spec.actor_id
        ref: ObjectRef[Any] = ObjectRef(entry)
        runtime.ownership.export(entry)
        client = ActorClient(spec.actor_id, services, spec.class_name)
        client.out_of_order = spec.out_of_order
        runtime.clients[spec.actor_id] = client
        runtime.io.post(_start, runtime, spec, entry, client)
        return ActorHandle(decode(spec.handle), ref)

    async def _register(self, runtime: Runtime, spec: ActorSpec) -> ActorHandle | None:
        await runtime.leases().known_at_home()
        link = runtime.gcs()
        record = self._record(runtime, spec, detached=False)
        request = gcs.RegisterNamedActorRequest(
            actor=record, get_if_exists=bool(self._options.get("get_if_exists"))
        )
        answer = await link.call(link.actors.RegisterNamedActor, request)
        return self._unless_created(answer.existing, spec, created=answer.created)

    def _unless_created(
        self, existing: t.ActorRecord, spec: ActorSpec, *, created: bool
    ) -> ActorHandle | None:
        if created:
            return None
        if self._options.get("get_if_exists"):
            return handle_from_record(existing.handle)
        owner = existing.owner_id.hex() if existing.owner_id else "the GCS (detached)"
        raise exceptions.ActorAlreadyExistsError(
            f"The name {spec.name!r} (namespace {spec.namespace!r}) is already taken by actor "
            f"{existing.actor_id.hex()}, owner {owner}. Please use a different name, get_actor, "
            "or get_if_exists=True"
        )

    def _record(self, runtime: Runtime, spec: ActorSpec, *, detached: bool) -> t.ActorRecord:
        return t.ActorRecord(
            actor_id=spec.actor_id,
            job_id=spec.job_id,
            owner_id=runtime.facts.owner_id,
            owner_address="" if detached else runtime.facts.own_address,
            owner_node_id=runtime.services.worker_node_id,
            class_name=spec.class_name,
            name=spec.name,
            namespace=spec.namespace,
            state=t.ACTOR_STATE_DEPENDENCIES_UNREADY,
            detached=detached,
            placement_group_id=spec.key.request.placement_group_id,
            handle=spec.handle,
            start_time_ms=runtime.services.wall_ms(),
            version=1,
            resources=spec.key.request.resources,
        )

    # ---- hosted by the GCS

    def _start_detached(self, runtime: Runtime, spec: ActorSpec) -> ActorHandle:
        if runtime.facts.namespace_is_anonymous and not self._options.get("namespace"):
            log.warning("detached_actor_in_anonymous_namespace", actor=spec.name or spec.class_name)
        record = self._record(runtime, spec, detached=True)
        if_exists = bool(self._options.get("get_if_exists"))
        answer = runtime.io.call(create_detached(runtime, spec, record, get_if_exists=if_exists))
        existing = self._unless_created(answer.existing, spec, created=answer.created)
        return existing or handle_from_record(spec.handle)


def _start(runtime: Runtime, spec: ActorSpec, entry: Entry, client: ActorClient) -> None:
    actor = runtime.host().start(spec, entry, client)
    if spec.extra is None or runtime.dependencies.wait(spec.extra, actor.arguments_ready):
        actor.arguments_ready()


def _sequence(actor_id: bytes) -> int:
    return int.from_bytes(actor_id[16:24], "big")


def _rebuild(class_: type[Any], options: dict[str, Any]) -> ActorClass[Any]:
    return ActorClass(class_, options)
