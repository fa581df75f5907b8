"""Options of remote functions and classes: which exist, what they may be (RAY_FACTS C1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster_common import resources
from driver_client.core import runtime_env_rules, selectors
from driver_client.core.shapes import is_dict, is_list, is_sequence

_COMMON = frozenset(
    {
        "_labels",
        "_metadata",
        "accelerator_type",
        "enable_task_events",
        "fallback_strategy",
        "label_selector",
        "memory",
        "name",
        "num_cpus",
        "num_gpus",
        "object_store_memory",
        "placement_group",
        "placement_group_bundle_index",
        "placement_group_capture_child_tasks",
        "resources",
        "runtime_env",
        "scheduling_strategy",
    }
)
TASK_OPTIONS = _COMMON | {
    "_generator_backpressure_num_objects",
    "max_calls",
    "max_retries",
    "num_returns",
    "retry_exceptions",
}
ACTOR_OPTIONS = _COMMON | {
    "allow_out_of_order_execution",
    "concurrency_groups",
    "get_if_exists",
    "lifetime",
    "max_concurrency",
    "max_pending_calls",
    "max_restarts",
    "max_task_retries",
    "namespace",
}
METHOD_OPTIONS = frozenset(
    {
        "_generator_backpressure_num_objects",
        "concurrency_group",
        "enable_task_events",
        "max_task_retries",
        "name",
        "num_returns",
        "retry_exceptions",
        "tensor_transport",
    }
)


def check(options: Mapping[str, Any], allowed: frozenset[str], what: str) -> None:
    """Checks names and values of options.

    Raises:
        ValueError, TypeError: names the option, what was wrong and what is allowed.
        WrongArgumentError: the same as both, where Ray's class for it depends on the option.
    """
    for name, value in options.items():
        if name not in allowed:
            raise ValueError(
                f"{what} has no option {name!r}; allowed are {', '.join(sorted(allowed))}"
            )
        checker = _CHECKS.get(name)
        if checker is not None and value is not None:
            checker(name, value)


def groups_of(options: Mapping[str, Any]) -> dict[str, int]:
    """The concurrency groups of an actor's options: name -> limit.

    They come as a dict or, as Ray's lower layers write them, as a list of dicts.
    """
    groups: Any = options.get("concurrency_groups") or {}
    if is_list(groups):
        return {group["name"]: group["max_concurrency"] for group in groups}
    return dict(groups)


def backpressure_of(options: Mapping[str, Any]) -> int:
    """Items a generator may be ahead of its consumer; 0: any number."""
    return max(0, options.get("_generator_backpressure_num_objects") or 0)


class WrongArgumentError(TypeError, ValueError):
    """A wrong argument for which Ray raises one or the other: whoever catches either is served."""


def _whole(minimum: int) -> Any:
    def checker(name: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number, not {value!r}")
        if value < minimum:
            raise ValueError(f"{name} must be {minimum} or more, not {value}")

    return checker


def _returns(name: str, value: Any) -> None:
    if isinstance(value, str):
        if value not in ("streaming", "dynamic"):
            raise WrongArgumentError(
                f"{name} must be a whole number, 'streaming' or 'dynamic', not {value!r}"
            )
        return
    _whole(0)(name, value)


def _amount(resource: str) -> Any:
    def checker(name: str, value: Any) -> None:
        try:
            resources.to_fixed(resource, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from None

    return checker


def _resources(name: str, value: Any) -> None:
    if not is_dict(value):
        raise TypeError(f"{name} must be a dict of resource name to amount, not {value!r}")
    for reserved, option in (("CPU", "num_cpus"), ("GPU", "num_gpus"), ("memory", "memory")):
        if reserved in value:
            raise ValueError(f"{name} must not contain {reserved!r}: use {option}")
    try:
        resources.vector(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None


def _text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, not {value!r}")


def _name(name: str, value: Any) -> None:
    _text(name, value)
    if not value:
        raise ValueError(f"{name} cannot be an empty string; it must have a character at least")


def _flag(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, not {value!r}")


def _lifetime(name: str, value: Any) -> None:
    if value not in ("detached", "non_detached"):
        raise WrongArgumentError(
            f"{name} must be None, 'detached' or 'non_detached', not {value!r}"
        )


def _selector(name: str, value: Any) -> None:
    selectors.checked(name, value)


def _fallback(name: str, value: Any) -> None:
    if not is_list(value):
        raise TypeError(f"{name} must be a list of {{'label_selector': {{…}}}}, not {value!r}")
    for item in value:
        if not is_dict(item) or set(item) != {"label_selector"}:
            raise ValueError(f"{name}: each item must be {{'label_selector': {{…}}}}, not {item!r}")
        _selector(f"{name} label_selector", item["label_selector"])


def _retry_exceptions(name: str, value: Any) -> None:
    if isinstance(value, bool):
        return
    if is_sequence(value) and all(
        isinstance(item, type) and issubclass(item, BaseException) for item in value
    ):
        return
    raise WrongArgumentError(
        f"{name} must be True, False or a list of exception classes, not {value!r}"
    )


def _groups(name: str, value: Any) -> None:
    keys = {"name", "max_concurrency"}
    if is_list(value) and all(is_dict(group) and keys <= set(group) for group in value):
        value = groups_of({name: value})
    if not is_dict(value):
        raise TypeError(f"{name} must be a dict of group name to concurrency, not {value!r}")
    for group, count in value.items():
        _whole(1)(f"{name}[{group!r}]", count)


def _backpressure(name: str, value: Any) -> None:
    if value != -1:
        _whole(1)(name, value)


def _index(name: str, value: Any) -> None:
    _whole(-1)(name, value)


def _labels(name: str, value: Any) -> None:
    if not is_dict(value):
        raise TypeError(f"{name} must be a dict of label to value, not {value!r}")


_CHECKS: dict[str, Any] = {
    "num_cpus": _amount("CPU"),
    "num_gpus": _amount("GPU"),
    "memory": _amount("memory"),
    "object_store_memory": _amount("object_store_memory"),
    "resources": _resources,
    "name": _name,
    "namespace": _name,
    "accelerator_type": _name,
    "concurrency_group": _name,
    "max_calls": _whole(0),
    "max_retries": _whole(-1),
    "max_restarts": _whole(-1),
    "max_task_retries": _whole(-1),
    "max_concurrency": _whole(1),
    "max_pending_calls": _whole(-1),
    "num_returns": _returns,
    "_generator_backpressure_num_objects": _backpressure,
    "_labels": _labels,
    "placement_group_bundle_index": _index,
    "placement_group_capture_child_tasks": _flag,
    "retry_exceptions": _retry_exceptions,
    "lifetime": _lifetime,
    "get_if_exists": _flag,
    "allow_out_of_order_execution": _flag,
    "enable_task_events": _flag,
    "label_selector": _selector,
    "fallback_strategy": _fallback,
    "runtime_env": runtime_env_rules.check,
    "concurrency_groups": _groups,
}
