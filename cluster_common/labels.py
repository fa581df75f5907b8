"""Node labels and selectors: `v`, `!v`, `in(a,b)`, `!in(a,b)`, `*`, `!*` (RAY_FACTS A3.1).

A missing label fails a positive term and passes a negative one. `*`: the label exists.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

LABEL_BYTES_MAX = 255
_VALUE = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?\Z")
_KEY = re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?\Z")
_IN = re.compile(r"^(!?)in\((.*)\)$")

NODE_ID_LABEL = "shoal.io/node-id"
"""Set by every agent to its own node id, so that a selector or topology level can name the node."""

RAY_NODE_ID_LABEL = "ray.io/node-id"
"""Ray's key for it. Agents do not carry it twice: selectors are read as if it were the other."""

NODE_ID_LABELS = (NODE_ID_LABEL, RAY_NODE_ID_LABEL)


_ANY = ("*",)
"""The values of a term that asks only whether the label exists."""


class Term(msgspec.Struct, frozen=True, gc=False):
    """One parsed term: the label's value must (not) be among `values`."""

    key: str
    negated: bool
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels passes."""
        if self.is_existence:
            return (self.key in labels) != self.negated
        return (labels.get(self.key) in self.values) != self.negated

    @property
    def is_existence(self) -> bool:
        """Whether any value of the label counts."""
        return self.values == _ANY


def parse_term(key: str, expression: str) -> Term:
    """One term of a selector.

    Raises:
        ValueError: bad key, or an expression that is not `v`, `!v`, `in(a,b)` or `!in(a,b)`.
    """
    check_key(key)
    if key == RAY_NODE_ID_LABEL:
        key = NODE_ID_LABEL
    listed = _IN.match(expression)
    if listed:
        values = tuple(part.strip() for part in listed.group(2).split(","))
        negated = bool(listed.group(1))
    else:
        negated = expression.startswith("!")
        values = (expression[1:] if negated else expression,)
        if values == _ANY:
            return Term(key, negated, values)
    for value in values:
        if not _VALUE.match(value) or len(value.encode()) > LABEL_BYTES_MAX:
            raise ValueError(
                f"label selector {key!r}: {expression!r} is not one of "
                "'v', '!v', 'in(a,b)', '!in(a,b)', '*', '!*'"
            )
    return Term(key, negated, values)


def parse_selector(terms: Mapping[str, str]) -> tuple[Term, ...]:
    """All terms of a selector, in key order.

    Raises:
        ValueError: as `parse_term`.
    """
    return tuple(parse_term(key, terms[key]) for key in sorted(terms))


def shown(labels: Mapping[str, str]) -> dict[str, str]:
    """A node's labels as its users see them: the node id under Ray's key too."""
    listed = dict(labels)
    if NODE_ID_LABEL in listed:
        listed[RAY_NODE_ID_LABEL] = listed[NODE_ID_LABEL]
    return listed


def matches(selector: tuple[Term, ...], labels: Mapping[str, str]) -> bool:
    """Whether every term passes."""
    return all(term.matches(labels) for term in selector)


def contradiction(selectors: list[tuple[Term, ...]]) -> str | None:
    """A label that no single node can have for all selectors at once (None: there may be one)."""
    allowed: dict[str, set[str]] = {}
    refused: dict[str, set[str]] = {}
    for selector in selectors:
        for term in selector:
            if term.is_existence:
                continue
            if term.negated:
                refused.setdefault(term.key, set()).update(term.values)
            elif term.key in allowed:
                allowed[term.key] &= set(term.values)
            else:
                allowed[term.key] = set(term.values)
    for key in sorted(allowed):
        if not allowed[key] - refused.get(key, set()):
            return key
    return None


def check_key(key: str) -> None:
    """Raises ValueError unless `key` can be a label's name."""
    if not _KEY.match(key) or len(key.encode()) > LABEL_BYTES_MAX:
        raise ValueError(
            f"label {key!r} must be letters, digits, '.', '_', '/', '-', "
            f"at most {LABEL_BYTES_MAX} bytes"
        )


def check_labels(labels: Mapping[str, str]) -> None:
    """Raises ValueError unless all keys and values are valid node labels."""
    for key, value in labels.items():
        check_key(key)
        if value and (not _VALUE.match(value) or len(value.encode()) > LABEL_BYTES_MAX):
            raise ValueError(
                f"label {key!r}: value {value!r} may have letters, digits, '.', '_', '/', '-'"
            )
