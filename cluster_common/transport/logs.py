"""structlog, set up once per process by its composition root: JSON, or plain on a terminal.

Imported at the first line that is logged: with the rich it pulls in, it is a third of what
importing the runtime costs, and most drivers and workers never log.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.types import Processor


class Logger:
    """`info`, `warning`, … of structlog: an event name and facts as keywords."""

    __slots__ = ("_bound",)

    def __init__(self) -> None:
        self._bound: Any = None

    def __getattr__(self, name: str) -> Any:
        bound = self._bound
        if bound is None:
            bound = self._bound = _bound_logger()
        return getattr(bound, name)


def get_logger() -> Logger:
    """A logger for a module; costs nothing until it is used."""
    return Logger()


def preload() -> None:
    """Imports structlog now: before a fork, so that the children share its memory."""
    _structlog()


class _StandardError:
    """Whatever is standard error when a line is written: programs and their tests exchange it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


_STANDARD_ERROR = _StandardError()
"""One for all loggers: its lock keeps their lines apart."""


def _bound_logger() -> Any:
    """The one of structlog where somebody configured that: the composition root, or a user.

    Elsewhere, as in drivers, standard output is the program's: warnings go to standard error.
    """
    structlog = _structlog()
    if structlog.is_configured():
        return structlog.get_logger()
    return structlog.wrap_logger(
        structlog.PrintLogger(_STANDARD_ERROR),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    )


def _structlog() -> Any:
    """The module, without rich: only a person at a terminal would see what that adds."""
    hide = "rich" not in sys.modules and not sys.stderr.isatty()
    if hide:
        sys.modules["rich"] = None  # pyright: ignore[reportArgumentType] - how Python says "not there"
    try:
        return importlib.import_module("structlog")
    finally:
        if hide:
            del sys.modules["rich"]


def set_up_logs(part: str, level: str = "INFO") -> None:
    """Configures structlog for this process.

    Raises:
        ValueError: unknown level.
    """
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r} is not one of DEBUG, INFO, WARNING, ERROR")
    structlog = _structlog()
    terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not terminal:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(part=part)
