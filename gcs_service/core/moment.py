"""Time as cores see it: handed in, never fetched."""

from __future__ import annotations

import msgspec


class Moment(msgspec.Struct, frozen=True, gc=False):
    """When an event is handled.

    Attributes:
        mono_ms: monotonic clock, for durations and deadlines.
        wall_ms: milliseconds since the Unix epoch, for records.
    """

    mono_ms: int
    wall_ms: int
