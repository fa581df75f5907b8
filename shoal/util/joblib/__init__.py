"""joblib (and so scikit-learn) on a cluster: `register_shoal()`, then the backend "shoal" or "ray".

Needs the extra `shoal[joblib]`.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["register_ray", "register_shoal"]


def register_shoal() -> None:
    """Makes `joblib.parallel_config(backend="shoal")` known, and "ray" for programs written so.

    Raises:
        ImportError: joblib is not installed.
    """
    try:
        parallel: Any = importlib.import_module("joblib.parallel")
    except ImportError as error:
        raise ImportError("joblib is not installed: pip install 'shoal[joblib]'") from error
    from shoal.util.joblib.backend import ShoalBackend

    parallel.register_parallel_backend("shoal", ShoalBackend)
    parallel.register_parallel_backend("ray", ShoalBackend)


def register_ray() -> None:
    """Ray's name for `register_shoal`."""
    register_shoal()
