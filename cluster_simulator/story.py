"""What happened, object by object, while a failure is replayed; and a digest of everything, always.

The digest makes "replays exactly" a comparison of two numbers.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable

from cluster_simulator import limits
from cluster_simulator.event_heap import EventHeap


class Story:
    """Last lines of each object, if `recording`; a running checksum if `digesting`."""

    def __init__(self, heap: EventHeap, *, recording: bool, digesting: bool) -> None:
        self._heap = heap
        self.recording = recording
        self.digesting = digesting
        self.is_on = recording or digesting
        self.digest = 0
        self._lines: dict[bytes, deque[tuple[int, int, str]]] = {}
        self._number = 0

    def note(self, text: str, *about: bytes) -> None:
        """One event and the ids of the objects it is about."""
        if self.digesting:
            mark = f"{self._heap.now_us} {text} {' '.join(one.hex() for one in about)}"
            self.digest = zlib.crc32(mark.encode(), self.digest)
        if not self.recording:
            return
        self._number += 1
        line = (self._number, self._heap.now_us, text)
        for one in about:
            lines = self._lines.get(one)
            if lines is None:
                if len(self._lines) >= limits.STORY_OBJECTS_MAX:
                    continue
                lines = self._lines[one] = deque(maxlen=limits.STORY_LINES_MAX)
            lines.append(line)

    def of(self, about: Iterable[bytes]) -> list[str]:
        """The last lines of these objects, in order, each once."""
        found: dict[int, tuple[int, str]] = {}
        for one in about:
            for number, at_us, text in self._lines.get(one, ()):
                found[number] = (at_us, text)
        return [f"{at_us / 1_000:10.3f} ms  {text}" for _, (at_us, text) in sorted(found.items())]
