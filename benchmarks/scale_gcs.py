"""A GCS of its own for the benchmarks that need thousands of nodes, and what it costs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psutil

from shoal.processes import (
    AgentOptions,
    GcsOptions,
    GcsProcess,
    SessionFolder,
    start_agent,
    start_gcs,
)

BYTES_PER_MIB = 1 << 20


def add_streams_option(parser: argparse.ArgumentParser) -> None:
    """`--own-streams`, for benchmarks with a fleet."""
    parser.add_argument(
        "--own-streams",
        action="store_true",
        help="each agent has a session stream of its own; else one for each connection carries all",
    )


def streams_of(own_streams: bool, connections: int | None = None) -> str:  # noqa: FBT001 - the option's value
    """What rows say about it: "own" or "shared"."""
    return "own" if own_streams or connections == 0 else "shared"


@contextmanager
def gcs_only(*, sync_scope: str | None = None) -> Generator[GcsProcess]:
    """A GCS with the storage users get, and its folder; both gone afterwards."""
    session = SessionFolder()
    storage = Path(session.path, "gcs")
    options = GcsOptions(storage="sqlite", storage_path=storage, sync_scope=sync_scope)
    gcs = start_gcs(session, options)
    try:
        yield gcs
    finally:
        gcs.kill()
        session.remove()


@contextmanager
def head_node(address: str) -> Generator[None]:
    """A real agent without CPUs, where the driver is at home; it schedules."""
    session = SessionFolder()
    options = AgentOptions(num_cpus=0, memory=0, head=True, scheduler=True)
    agent = start_agent(session, address, options)
    try:
        yield
    finally:
        agent.stop()
        session.remove()


def cpu_percent(pid: int, window_s: float) -> float:
    """Percent of one core that a process uses over `window_s` seconds from now."""
    process = psutil.Process(pid)
    before, start = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(window_s)  # The measured interval itself.
    used = sum(process.cpu_times()[:2]) - before
    return 100.0 * used / (time.monotonic() - start)


def rss_mib(pid: int) -> float:
    """Resident memory of a process."""
    return psutil.Process(pid).memory_info().rss / BYTES_PER_MIB
