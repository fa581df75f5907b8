"""Bounds of the simulator. Unit last."""

from __future__ import annotations

EVENTS_MAX = 400_000_000
"""A run with more events is stuck in a loop that never lets time pass."""

EVENTS_PER_INSTANT_MAX = 2_000_000
"""Events without the clock moving: two cores that answer each other for ever."""

STORY_LINES_MAX = 40
"""Last events kept of one object while a failure is replayed."""

STORY_OBJECTS_MAX = 200_000

TASKS_MAX = 1_000_000

UNARY_TRIES_MAX = 1_000
"""Repeats of one call to a GCS that is away."""
