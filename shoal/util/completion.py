"""Results as they come: Ray's `as_completed` and `map_unordered`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import shoal

_CHUNK_SIZE = 10
_PENDING_MAX = 100


def as_completed(
    refs: Sequence[Any],
    *,
    chunk_size: int = _CHUNK_SIZE,
    yield_obj_refs: bool = False,
    **wait_options: Any,
) -> Iterator[Any]:
    """Yields the values of references, `chunk_size` at a time as soon as so many are ready.

    Args:
        refs: references to different objects.
        chunk_size: how many are waited for at once; 1 gives them one by one as they come.
        yield_obj_refs: the references instead of their values.
        **wait_options: for `wait`, such as `timeout` (seconds, of each wait).

    Raises:
        ValueError: `chunk_size` below 1; `num_returns` given.
        RayError: the error of a failed call, when its value would be yielded.
    """
    _check(chunk_size, wait_options)
    return _ready(list(refs), chunk_size, wait_options, as_refs=yield_obj_refs)


def map_unordered(
    fn: Any,
    items: Iterable[Any],
    *,
    backpressure_size: int | None = _PENDING_MAX,
    chunk_size: int = _CHUNK_SIZE,
    yield_obj_refs: bool = False,
    **wait_options: Any,
) -> Iterator[Any]:
    """Calls a remote function on each item and yields the results as they come.

    Args:
        fn: a remote function of one argument.
        items: its arguments; taken as results are, so they may be many.
        backpressure_size: calls pending at most; None: no limit.
        chunk_size: how many results are waited for at once.
        yield_obj_refs: the references instead of their values.
        **wait_options: for `wait`, such as `timeout` (seconds, of each wait).

    Raises:
        ValueError: `backpressure_size` or `chunk_size` below 1; `num_returns` given.
        RayError: the error of a failed call, when its value would be yielded.
    """
    _check(chunk_size, wait_options)
    if backpressure_size is not None and backpressure_size < 1:
        raise ValueError(f"backpressure_size must be None or 1 or more, not {backpressure_size}")
    return _mapped(fn, items, backpressure_size, chunk_size, wait_options, as_refs=yield_obj_refs)


def _check(chunk_size: int, wait_options: dict[str, Any]) -> None:
    if chunk_size < 1:
        raise ValueError(f"chunk_size must be 1 or more, not {chunk_size}")
    if "num_returns" in wait_options:
        raise ValueError("num_returns is not an option here: chunk_size is what is waited for")


def _ready(
    refs: list[Any], chunk_size: int, wait_options: dict[str, Any], *, as_refs: bool
) -> Iterator[Any]:
    while refs:
        ready, refs = shoal.wait(refs, num_returns=min(chunk_size, len(refs)), **wait_options)
        yield from ready if as_refs else shoal.get(ready)


def _mapped(
    fn: Any,
    items: Iterable[Any],
    pending_max: int | None,
    chunk_size: int,
    wait_options: dict[str, Any],
    *,
    as_refs: bool,
) -> Iterator[Any]:
    refs: list[Any] = []
    for item in items:
        refs.append(fn.remote(item))
        if pending_max is not None and len(refs) >= pending_max:
            ready, refs = shoal.wait(refs, num_returns=min(chunk_size, len(refs)), **wait_options)
            yield from ready if as_refs else shoal.get(ready)
    yield from _ready(refs, chunk_size, wait_options, as_refs=as_refs)
