"""A piece of work with what must be taken down after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self


@dataclass(frozen=True)
class Work:
    """What to call, and the actors to kill when its measurement is over."""

    call: Callable[[], object]
    kill: Callable[[Any], object] | None = None
    actors: Sequence[Any] = field(default_factory=list[Any])

    def __enter__(self) -> Self:
        """Hand out the work, ready to be called."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Kill the actors."""
        if self.kill is not None:
            for actor in self.actors:
                self.kill(actor)
