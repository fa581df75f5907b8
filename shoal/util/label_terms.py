"""Ray's label expressions as selector texts."""

from __future__ import annotations

from driver_client.core.options import WrongArgumentError


def In(*values: str) -> str:  # noqa: N802 - Ray's name
    """The label is one of the values."""
    return f"in({_joined('In', values)})"


def Exists() -> str:  # noqa: N802 - Ray's name
    """The label has a value, whichever."""
    return "*"


def DoesNotExist() -> str:  # noqa: N802 - Ray's name
    """The node does not have the label."""
    return "!*"


def NotIn(*values: str) -> str:  # noqa: N802 - Ray's name
    """The label is none of the values, or absent."""
    return f"!in({_joined('NotIn', values)})"


def _joined(operator: str, values: tuple[str, ...]) -> str:
    if not values:
        raise ValueError(f'{operator} needs at least one value: {operator}("value1", "value2")')
    for value in values:
        if not isinstance(value, str):
            raise WrongArgumentError(f"{operator} takes texts, not {value!r}")
    return ",".join(values)
