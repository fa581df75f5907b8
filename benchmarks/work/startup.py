"""From `init()` without a cluster to the value of the first task, and the way back."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.report import Row
from benchmarks.work import library as libraries

NODE_CPUS = 2


def rows(name: str) -> Iterator[Row]:
    """One cold start in this process, which must not have imported the library before."""
    start = time.perf_counter()
    library = libraries.load(name)
    imported = time.perf_counter()
    libraries.start_local(library, num_cpus=NODE_CPUS)
    connected = time.perf_counter()
    if library.get(library.remote(_increment).remote(41)) != 42:
        raise RuntimeError("the first task answered wrongly")
    answered = time.perf_counter()
    library.shutdown()
    ended = time.perf_counter()
    yield Row("startup_first_task_s", answered - imported, "s")
    yield Row("import_s", imported - start, "s")
    yield Row("init_s", connected - imported, "s")
    yield Row("shutdown_s", ended - answered, "s")


def _increment(number: int) -> int:
    return number + 1
