"""Label selectors as users hand them in."""

from __future__ import annotations

from typing import Any

from cluster_common import labels
from driver_client.core.shapes import is_dict


def checked(what: str, value: Any) -> dict[str, str]:
    """The selector, once every term of it is known to be one.

    Raises:
        TypeError: not a dict of text to text; names `what` and the term.
        ValueError: a term that is none; names `what`, the term and what is allowed.
    """
    if not is_dict(value):
        raise TypeError(f"{what} must be a dict of label to expression, not {value!r}")
    for key, expression in value.items():
        if not isinstance(key, str):
            raise TypeError(f"{what}: label {key!r} must be a text")
        if not isinstance(expression, str):
            raise TypeError(f"{what}[{key!r}] must be a text, not {expression!r}")
    try:
        labels.parse_selector(value)
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from None
    return value
