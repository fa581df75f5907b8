"""Reads the clocks, for the cores."""

from __future__ import annotations

import time

from gcs_service.core.moment import Moment


def now() -> Moment:
    """This moment."""
    return Moment(time.monotonic_ns() // 1_000_000, time.time_ns() // 1_000_000)
