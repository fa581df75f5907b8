"""`multiprocessing.Pool` on a cluster (Ray's `ray.util.multiprocessing`)."""

from multiprocessing import TimeoutError  # noqa: A004 - the name programs import from here

from shoal.util.multiprocessing.pool import AsyncResult, Pool

__all__ = ["AsyncResult", "Pool", "TimeoutError"]
