"""Ray's `ray.cloudpickle`: the library itself, which writes functions and classes."""

from __future__ import annotations

from typing import Any

import cloudpickle as _library

_untyped: Any = _library  # it has no annotations

CloudPickler = Pickler = _untyped.CloudPickler
dump = _untyped.dump
dumps = _untyped.dumps
load = _untyped.load
loads = _untyped.loads
register_pickle_by_value = _untyped.register_pickle_by_value
unregister_pickle_by_value = _untyped.unregister_pickle_by_value

__all__ = [
    "CloudPickler",
    "Pickler",
    "dump",
    "dumps",
    "load",
    "loads",
    "register_pickle_by_value",
    "unregister_pickle_by_value",
]
