"""Where user code stands. Functions that travel by value lose it; tracebacks want it back."""

from __future__ import annotations

import inspect
import types
from typing import Any

_LOST = "<dynamic-code>"
"""What cloudpickle writes instead of the file name."""


def source_file(target: Any) -> str:
    """The file of a function or class, empty if there is none (a shell's input)."""
    try:
        return inspect.getsourcefile(target) or ""
    except (TypeError, OSError):
        return ""


def restore(target: Any, file: str) -> None:
    """Puts the file name back into a function or class that came by value, and its globals."""
    if not file:
        return
    if inspect.isfunction(target):
        _restore_function(target, file)
        for value in list(target.__globals__.values()):
            inner = getattr(value, "__wrapped__", value)  # remote functions and classes
            if inspect.isfunction(inner):
                _restore_function(inner, file)
            elif inspect.isclass(inner) and inner is not value:
                _restore_class(inner, file)
    elif inspect.isclass(target):
        _restore_class(target, file)
        for member in list(vars(target).values()):
            if inspect.isfunction(member):
                restore(member, file)
                return


def _restore_class(target: type, file: str) -> None:
    for member in list(vars(target).values()):
        function = getattr(member, "__func__", member)
        if inspect.isfunction(function):
            _restore_function(function, file)


def _restore_function(function: types.FunctionType, file: str) -> None:
    if function.__code__.co_filename == _LOST:
        function.__code__ = _with_file(function.__code__, file)


def _with_file(code: types.CodeType, file: str) -> types.CodeType:
    constants = tuple(
        _with_file(part, file)
        if isinstance(part, types.CodeType) and part.co_filename == _LOST
        else part
        for part in code.co_consts
    )
    return code.replace(co_filename=file, co_consts=constants)
