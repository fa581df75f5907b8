"""The worker side of a pool: runs chunks of calls and keeps errors apart, item by item."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterable
from typing import Any

Item = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of one call of the pool's function."""

Outcome = tuple[bool, Any]
"""(True, value) or (False, the error)."""


class PoolActor:
    """One process of a pool."""

    def __init__(self, initializer: Callable[..., Any] | None, initargs: Iterable[Any]) -> None:
        if initializer is not None:
            initializer(*initargs)

    def ping(self) -> int:
        """The pid, once the initializer is over."""
        return os.getpid()

    def run(self, function: Callable[..., Any], items: list[Item]) -> list[Outcome]:
        """Calls `function` once per item; an item that raises does not stop the others."""
        return [_outcome(function, args, kwargs) for args, kwargs in items]


def _outcome(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Outcome:
    try:
        return True, function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - user code may raise anything; it is the result
        error.add_note("".join(traceback.format_exception(error)).rstrip())
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - classes can fail in any way while pickled
            text = "".join(traceback.format_exception(error))
            return False, RuntimeError(f"the error of a pool call cannot be pickled:\n{text}")
        return False, error.with_traceback(None)
