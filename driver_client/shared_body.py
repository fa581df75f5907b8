"""The pickled form of a function or class, made once for all variants that `options` gives."""

from __future__ import annotations

from typing import Any

from driver_client.core.call import FunctionBody, function_body
from driver_client.objects import serialization
from driver_client.source_files import source_file


class SharedBody:
    """Pickled at the first use: a class that refers to itself is unpickled in two steps."""

    __slots__ = ("_body", "_target")

    def __init__(self, target: Any) -> None:
        self._target = target
        self._body: FunctionBody | None = None

    def get(self) -> FunctionBody:
        """The body. Two threads may make it at once: it is the same."""
        body = self._body
        if body is None:
            target = self._target
            name = f"{target.__module__}.{target.__qualname__}"
            pickled = serialization.dumps_by_value(target)
            body = self._body = function_body(pickled, name, source_file(target))
        return body
