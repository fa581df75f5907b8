"""Prints workers' output on the driver, each line with who wrote it."""

from __future__ import annotations

import sys
import time

from cluster_api.v1 import core_worker_pb2 as pb

_last_line_s = 0.0


def quiet_for_s() -> float:
    """Seconds since the last line of any worker came."""
    return time.monotonic() - _last_line_s


def print_worker_lines(batch: pb.LogLines) -> None:
    """`(name pid=123) line`, with the node's name where there is one; errors go to stderr."""
    global _last_line_s  # noqa: PLW0603 - one standard output per process, one time of its last line
    _last_line_s = time.monotonic()
    stream = sys.stderr if batch.is_error else sys.stdout
    where = f", node={batch.node_name}" if batch.node_name else ""
    prefix = f"({batch.name or 'worker'} pid={batch.pid}{where})"
    text = "".join(f"{prefix} {line}\n" for line in batch.lines)
    if batch.dropped:
        text = f"{prefix} [{batch.dropped} lines were dropped: nobody read them in time]\n{text}"
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        return  # the driver closed its output; workers' lines have nowhere to go
