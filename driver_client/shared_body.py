"""The pickled form of a function or class, made once for all variants that `options` gives."""

from __future__ import annotations

from typing import Any

from driver_client.core import signatures
from driver_client.core.call import FunctionBody, function_body
from driver_client.objects import serialization
from driver_client.source_files import source_file


class SharedBody:
    """Pickled at the first use: a class that refers to itself is unpickled in two steps."""

    __slots__ = ("_body", "_signature", "_target")

    def __init__(self, target: Any) -> None:
        self._target = target
        self._body: FunctionBody | None = None
        self._signature: str | None = None

    def signature(self) -> signatures.Signature | None:
        """What the function takes, or the class when it is called; None if that is not known."""
        text = self._signature
        if text is None:
            target: Any = self._target
            if isinstance(target, type):
                text = signatures.of_constructor(target)
            else:
                text = signatures.of_function(target)
            self._signature = text
        return signatures.read(text)

    def get(self) -> FunctionBody:
        """The body. Two threads may make it at once: it is the same.

        Raises:
            TypeError: it cannot be pickled; names it.
        """
        body = self._body
        if body is None:
            target = self._target
            name = f"{target.__module__}.{target.__qualname__}"
            try:
                pickled = serialization.dumps_by_value(target)
            except Exception as error:
                raise TypeError(
                    f"{name} cannot be pickled, with the globals and closures it uses: {error}"
                ) from error
            body = self._body = function_body(pickled, name, source_file(target))
        return body
