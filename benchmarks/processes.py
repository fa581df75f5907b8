"""CPU time and memory of everything a benchmark started, read from /proc.

A process belongs to the benchmark when it descends from it, or when it carries the benchmark's
marker in its environment: what init adopted has lost its parent but not its environment.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

MARKER_VARIABLE = "BENCHMARK_SESSION"
SETTLE_WINDOW_S = 0.3
SETTLE_CPU_SHARE_MAX = 0.05
SETTLE_DEADLINE_S = 15.0
KIB_PER_MIB = 1024


def mark() -> str:
    """Put a fresh marker into this process's environment; children inherit it. Returns it."""
    marker = secrets.token_hex(8)
    os.environ[MARKER_VARIABLE] = marker
    return marker


def started_pids() -> list[int]:
    """Pids of the processes this benchmark started and that live, itself excluded, in order."""
    own = os.getpid()
    found = {child.pid for child in psutil.Process().children(recursive=True)}
    marker = os.environ.get(MARKER_VARIABLE)
    if marker is not None:
        found.update(_marked_pids(f"{MARKER_VARIABLE}={marker}".encode()))
    found.discard(own)
    return sorted(found)


def _marked_pids(entry: bytes) -> Iterator[int]:
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        try:
            environment = (path / "environ").read_bytes()
        except OSError:
            continue  # It ended meanwhile, or belongs to somebody else.
        if entry in environment.split(b"\0"):
            yield int(path.name)


def cpu_seconds(pids: list[int]) -> float:
    """User plus system CPU seconds these processes used so far; ended ones count nothing."""
    total = 0.0
    for pid in pids:
        try:
            times = psutil.Process(pid).cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def pss_mib(pids: list[int]) -> float:
    """Memory of these processes in MiB, each shared page divided among those that share it."""
    total_kib = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
        except OSError:
            continue
        total_kib += sum(
            int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")
        )
    return total_kib / KIB_PER_MIB


def idle_cpu_percent(window_s: float) -> float:
    """Percent of one core that everything started uses over `window_s` seconds from now."""
    pids = started_pids()
    before = cpu_seconds(pids)
    start = time.monotonic()
    time.sleep(window_s)  # The measured interval itself.
    used = cpu_seconds(pids) - before
    return 100.0 * used / (time.monotonic() - start)


def settle() -> None:
    """Return when what was started is quiet (under 5 % of a core), or after 15 s."""
    deadline = time.monotonic() + SETTLE_DEADLINE_S
    limit = 100 * SETTLE_CPU_SHARE_MAX
    while idle_cpu_percent(SETTLE_WINDOW_S) > limit and time.monotonic() < deadline:
        pass


def wait_gone(pids: list[int], deadline_s: float = 30.0) -> bool:
    """Wait until none of these processes lives; False when some still do after `deadline_s`."""
    handles: list[psutil.Process] = []
    for pid in pids:
        try:
            handles.append(psutil.Process(pid))
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(handles, timeout=deadline_s)
    return not alive
