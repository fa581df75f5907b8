"""joblib (and so scikit-learn) on a cluster: `register_shoal()`, then the backend "shoal" or "ray".

Needs the extra `shoal[joblib]`.
"""

from __future__ import annotations

__all__ = ["register_ray", "register_shoal"]


def register_shoal() -> None:
    """Makes `joblib.parallel_config(backend="shoal")` known, and "ray" for programs written so.

    Raises:
        ImportError: joblib is not installed.
    """
    try:
        from joblib.parallel import register_parallel_backend
    except ImportError as error:
        raise ImportError("joblib is not installed: pip install 'shoal[joblib]'") from error
    from shoal.util.joblib.backend import ShoalBackend

    register_parallel_backend("shoal", ShoalBackend)
    register_parallel_backend("ray", ShoalBackend)


def register_ray() -> None:
    """Ray's name for `register_shoal`."""
    register_shoal()
