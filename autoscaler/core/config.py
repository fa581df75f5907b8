"""The configuration file's content, checked: every error names the place and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from autoscaler import limits
from cluster_common import labels as label_rules
from cluster_common import resources
from cluster_common.resources import Vector

_TOP_KEYS = ("provider", "idle_timeout_s", "node_types")
_TYPE_KEYS = ("resources", "labels", "min_nodes", "max_nodes")

NODE_TYPE_LABEL = "shoal.io/node-type"
INSTANCE_ID_LABEL = "shoal.io/instance-id"
_OWN_LABELS = (NODE_TYPE_LABEL, INSTANCE_ID_LABEL)


class NodeType(msgspec.Struct, frozen=True):
    """What can be bought. Resources are fixed point."""

    name: str
    resources: Vector
    labels: dict[str, str]
    min_nodes: int
    max_nodes: int


class AutoscalerConfig(msgspec.Struct, frozen=True):
    """`provider`: its `type` and options, checked by the provider."""

    provider: dict[str, Any]
    idle_timeout_ms: int
    node_types: dict[str, NodeType]


def parse_config(raw: object) -> AutoscalerConfig:
    """The configuration in a parsed file.

    Raises:
        ValueError: names the wrong entry and what is allowed.
    """
    top = _mapping(raw, "the configuration")
    _only(top, _TOP_KEYS, "the configuration")
    provider = _mapping(top.get("provider"), "provider")
    if not isinstance(provider.get("type"), str):
        raise ValueError("provider.type is missing: the name of a provider, such as `local`")  # noqa: TRY004 - wrong input of a user
    idle_s = _number(top.get("idle_timeout_s", limits.IDLE_TIMEOUT_DEFAULT_S), "idle_timeout_s")
    types = _mapping(top.get("node_types"), "node_types")
    if not 1 <= len(types) <= limits.NODE_TYPES_MAX:
        raise ValueError(
            f"node_types has {len(types)} entries, 1 .. {limits.NODE_TYPES_MAX} are allowed"
        )
    parsed = {name: _node_type(name, types[name]) for name in types}
    return AutoscalerConfig(dict(provider), int(idle_s * 1_000), parsed)


def _node_type(name: str, raw: object) -> NodeType:
    where = f"node_types.{name}"
    label_rules.check_labels({NODE_TYPE_LABEL: name})
    entry = _mapping(raw, where)
    _only(entry, _TYPE_KEYS, where)
    least = _count(entry.get("min_nodes", 0), f"{where}.min_nodes")
    if "max_nodes" not in entry:
        raise ValueError(f"{where}.max_nodes is missing: how many may run at most")
    most = _count(entry["max_nodes"], f"{where}.max_nodes")
    if least > most:
        raise ValueError(f"{where}: min_nodes {least} is above max_nodes {most}")
    amounts = _mapping(entry.get("resources"), f"{where}.resources")
    try:
        vector = resources.vector(amounts)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}.resources: {error}") from None
    if not vector:
        raise ValueError(f"{where}.resources is empty: such a node could hold nothing")
    labels = {
        key: str(value)
        for key, value in _mapping(entry.get("labels", {}), f"{where}.labels").items()
    }
    for own in _OWN_LABELS:
        if own in labels:
            raise ValueError(f"{where}.labels: {own} is set by the autoscaler")
    try:
        label_rules.check_labels(labels)
    except ValueError as error:
        raise ValueError(f"{where}.labels: {error}") from None
    return NodeType(name, vector, {**labels, NODE_TYPE_LABEL: name}, least, most)


def _mapping(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        what = "missing" if value is None else f"a {type(value).__name__}"
        raise ValueError(f"{where} is {what}, a mapping is needed")  # noqa: TRY004 - as above
    mapping = cast("dict[Any, Any]", value)
    for key in mapping:
        if not isinstance(key, str):
            raise ValueError(f"{where}: key {key!r} is not a text; put it in quotes")  # noqa: TRY004 - as above
    return mapping


def _only(mapping: Mapping[str, Any], allowed: tuple[str, ...], where: str) -> None:
    for key in mapping:
        if key not in allowed:
            raise ValueError(f"{where}: {key!r} is not one of {', '.join(allowed)}")


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e9:
        raise ValueError(f"{where} is {value!r}, a number of seconds, at least 0, is needed")
    return float(value)


def _count(value: object, where: str) -> int:
    most = limits.NODES_PER_TYPE_MAX
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{where} is {value!r}, a whole number in 0 .. {most} is needed")
    return value
