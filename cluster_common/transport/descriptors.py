"""File descriptors: a process with thousands of connections needs more than the usual 1,024."""

from __future__ import annotations

import resource


def raise_descriptor_limit() -> int:
    """Raises this process's soft limit to its hard limit, which needs no privilege; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
