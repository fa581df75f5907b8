"""What a function or method takes, so that a wrong call is refused where it is written.

A handle brings the signatures of its actor's methods as texts, since its holder may not have the
class: parameters by comma, each a mark of its kind, its name, and `=` if it has a default.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

from driver_client import limits

UNKNOWN = "?"
"""Not known (code in C, odd descriptors): such calls are checked where they run."""

_MARKS = {
    inspect.Parameter.POSITIONAL_ONLY: "/",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "",
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.KEYWORD_ONLY: "!",
    inspect.Parameter.VAR_KEYWORD: "**",
}
_KINDS = {mark: kind for kind, mark in _MARKS.items()}
_WITHOUT_LIMIT = 1 << 30


class Signature:
    """Checks the arguments of calls; the common case is two comparisons."""

    __slots__ = ("_full", "_least", "_most", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._full: inspect.Signature | None = None
        self._least, self._most = _bounds(_parameters(text))

    def check(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Refuses a call that the function could not take.

        Raises:
            TypeError: says what is wrong and what the function takes.
        """
        if not kwargs and self._least <= len(args) <= self._most:
            return
        if self._full is None:
            self._full = inspect.Signature(_parameters(self._text))
        try:
            self._full.bind(*args, **kwargs)
        except TypeError as error:
            shown = _shown(_parameters(self._text))
            raise TypeError(f"{name}: {error}; it takes ({shown})") from None


@functools.lru_cache(maxsize=limits.SIGNATURES_KEPT)
def read(text: str) -> Signature | None:
    """The signature of a text; None if it is not known."""
    return None if text == UNKNOWN else Signature(text)


def of_function(function: Any, *, skip_first: bool = False) -> str:
    """The text of a function's signature, without `self` if asked."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return UNKNOWN
    if skip_first:
        if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            return UNKNOWN
        if parameters[0].kind is not inspect.Parameter.VAR_POSITIONAL:
            parameters = parameters[1:]
    return ",".join(
        f"{_MARKS[p.kind]}{p.name}{'' if p.default is inspect.Parameter.empty else '='}"
        for p in parameters
    )


def of_method(class_: type, name: str) -> str:
    """The text of a method's signature as its callers see it."""
    member = inspect.getattr_static(class_, name, None)
    if isinstance(member, FunctionType):
        return of_function(member, skip_first=True)
    if isinstance(member, (staticmethod, classmethod)):
        return of_function(getattr(class_, name))
    return UNKNOWN


def of_constructor(class_: type) -> str:
    """The text of the signature with which a class is called."""
    if isinstance(inspect.getattr_static(class_, "__init__", None), FunctionType):
        return of_method(class_, "__init__")
    plain = class_.__init__ is object.__init__ and class_.__new__ is object.__new__
    return "" if plain else UNKNOWN


def _parameters(text: str) -> list[inspect.Parameter]:
    return [_parameter(part) for part in text.split(",") if part]


def _parameter(part: str) -> inspect.Parameter:
    name = part.lstrip("/*!")
    mark = part[: len(part) - len(name)]
    default = ... if name.endswith("=") else inspect.Parameter.empty
    return inspect.Parameter(name.rstrip("="), _KINDS[mark], default=default)


def _bounds(parameters: list[inspect.Parameter]) -> tuple[int, int]:
    """(fewest, most) positional arguments that need no closer look."""
    least = most = 0
    for parameter in parameters:
        needed = parameter.default is inspect.Parameter.empty
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            most = _WITHOUT_LIMIT
        elif parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            if needed:
                return 0, -1
        elif parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            most += 1
            least += needed
    return least, most


def _shown(parameters: list[inspect.Parameter]) -> str:
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parts: list[str] = []
    named_only = False
    for parameter in parameters:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not named_only:
            named_only = True
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
        default = "" if parameter.default is inspect.Parameter.empty else "=…"
        parts.append(f"{marks.get(parameter.kind, '')}{parameter.name}{default}")
    return ", ".join(parts)
