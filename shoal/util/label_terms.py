"""Ray's label expressions as selector texts."""

from __future__ import annotations


def In(*values: str) -> str:  # noqa: N802 - Ray's name
    """The label is one of the values."""
    return f"in({','.join(values)})"


def Exists() -> str:  # noqa: N802 - Ray's name
    """The label has a value, whichever."""
    return "*"


def DoesNotExist() -> str:  # noqa: N802 - Ray's name
    """The node does not have the label."""
    return "!*"


def NotIn(*values: str) -> str:  # noqa: N802 - Ray's name
    """The label is none of the values, or absent."""
    return f"!in({','.join(values)})"
