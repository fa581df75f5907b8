"""Options and readers of values that commands share."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from cluster_common import labels as label_rules
from cluster_common import resources

Function = TypeVar("Function", bound=Callable[..., Any])

LIST_LIMIT_DEFAULT = 100
LIST_LIMIT_MAX = 10_000


def address_option(function: Function) -> Function:
    """`--address`."""
    return click.option(
        "--address",
        metavar="HOST:PORT",
        help="The GCS. Default: SHOAL_ADDRESS, else the cluster started last on this machine.",
    )(function)


def json_option(function: Function) -> Function:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="JSON for programs.")(function)


def parse_resources(_ctx: click.Context, _param: click.Parameter, value: str) -> dict[str, float]:
    """Callback of an option such as `--resources '{"special": 2}'`; each amount is checked."""
    try:
        stated: Any = json.loads(value)
    except json.JSONDecodeError as error:
        raise click.BadParameter(f"{value!r} is not JSON: {error}") from error
    if not isinstance(stated, dict):
        raise click.BadParameter(f'{value!r} is not a JSON object such as {{"special": 2}}')
    amounts = cast("dict[str, float]", stated)
    try:
        resources.vector(amounts)
    except (ValueError, TypeError) as error:
        raise click.BadParameter(str(error)) from error
    return amounts


def parse_labels(_ctx: click.Context, _param: click.Parameter, value: str) -> dict[str, str]:
    """Callback of an option such as `--labels rack=r1,zone=a`; each label is checked."""
    labels: dict[str, str] = {}
    for part in filter(None, value.split(",")):
        key, equals, text = part.partition("=")
        if not equals:
            raise click.BadParameter(f"{part!r} is not key=value")
        labels[key.strip()] = text.strip()
    try:
        label_rules.check_labels(labels)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return labels
