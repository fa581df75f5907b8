"""Which nodes are alive (DESIGN section 7). Never a full walk: a heap of the next moment per node.

A broken stream has a window to resume. A silent stream is pinged: two pings an interval apart, a
closer third, then the verdict. A verdict is never taken at the deadline itself: it goes once
through the I/O loop behind everything already received (`ConfirmSilence`), and it is put off when
the checker itself was late, so that the service never counts its own lateness against a node.
"""

from __future__ import annotations

import enum
import heapq

import msgspec

from gcs_service import limits

_FEW_NODES = 16


class Watch(enum.Enum):
    """What a node's next deadline is about."""

    BROKEN = "broken"
    SILENT = "silent"


class LivenessVerdict(msgspec.Struct, frozen=True, gc=False):
    """The deadline of a node passed: `ping` is sent, or (None) its silence is to be confirmed."""

    node_id: bytes
    ping_nonce: int | None


class _Entry:
    __slots__ = (
        "deadline_ms",
        "heard_ms",
        "loop_lag_ms",
        "missed",
        "reachable_until_ms",
        "ticket",
        "watch",
    )

    def __init__(self, heard_ms: int) -> None:
        self.watch = Watch.SILENT
        self.heard_ms = heard_ms
        self.deadline_ms = 0
        self.missed = 0
        self.ticket = 0
        self.reachable_until_ms = 0
        self.loop_lag_ms = 0.0


class Liveness:
    """Deadlines of all nodes that are not dead."""

    def __init__(self, ping_interval_ms: int = limits.PING_INTERVAL_MS) -> None:
        self._interval_ms = ping_interval_ms
        self._last_interval_ms = (
            ping_interval_ms * limits.PING_LAST_INTERVAL_MS // limits.PING_INTERVAL_MS
        )
        self._tick_ms = max(1, ping_interval_ms // limits.PING_TICKS)
        self._entries: dict[bytes, _Entry] = {}
        self._heap: list[tuple[int, int, bytes]] = []
        self._tickets = 0
        self.verdicts_put_off = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def interval_ms(self) -> int:
        """Silence after which a node is pinged."""
        return self._interval_ms

    @property
    def deadlines_count(self) -> int:
        """Entries of the heap, superseded ones included."""
        return len(self._heap)

    @property
    def silence_bound_ms(self) -> int:
        """A node that hangs is declared dead this long after its last word, unless we lag."""
        waits = (limits.PINGS_MISSED_MAX - 1) * self._interval_ms
        late = (limits.PINGS_MISSED_MAX + 1) * self._tick_ms + limits.VERDICT_LAG_MS_MAX
        return waits + 2 * self._last_interval_ms + late

    def connected(self, node_id: bytes, now_ms: int) -> None:
        """A session of the node is open."""
        entry = self._entries.setdefault(node_id, _Entry(now_ms))
        entry.watch, entry.heard_ms, entry.missed = Watch.SILENT, now_ms, 0
        self._arm(node_id, entry, now_ms + self._interval_ms)

    def broken(self, node_id: bytes, now_ms: int, *, reachable_ms: int = 0) -> None:
        """Its stream ended. `reachable_ms`: how long it may take while its port answers."""
        entry = self._entries.setdefault(node_id, _Entry(now_ms))
        entry.watch = Watch.BROKEN
        entry.reachable_until_ms = now_ms + reachable_ms
        self._arm(node_id, entry, now_ms + limits.RECONNECT_WINDOW_MS)

    def heard(self, node_id: bytes, now_ms: int) -> None:
        """Something arrived from the node. Costs no heap operation: the deadline looks back."""
        entry = self._entries.get(node_id)
        if entry is not None:
            entry.heard_ms, entry.missed = now_ms, 0

    def answered_ping(self, node_id: bytes, loop_lag_ms: float) -> None:
        """The agent's own loop lag, for the message of a later verdict."""
        entry = self._entries.get(node_id)
        if entry is not None:
            entry.loop_lag_ms = loop_lag_ms

    def is_broken(self, node_id: bytes) -> bool:
        """Whether the node's stream is broken at the moment."""
        entry = self._entries.get(node_id)
        return entry is not None and entry.watch is Watch.BROKEN

    def may_wait(self, node_id: bytes, now_ms: int) -> bool:
        """The node's port answers: whether it gets more time to come back; arms it then."""
        entry = self._entries.get(node_id)
        if entry is None or now_ms >= entry.reachable_until_ms:
            return False
        self._arm(node_id, entry, now_ms + limits.PROBE_TIMEOUT_MS)
        return True

    def forget(self, node_id: bytes) -> None:
        """The node is dead or gone."""
        self._entries.pop(node_id, None)

    def silence_confirmed(self, node_id: bytes, now_ms: int) -> bool:
        """Whether the node is still silent after the way through the loop."""
        entry = self._entries.get(node_id)
        if entry is None:
            return False
        if entry.watch is Watch.BROKEN:
            return now_ms >= entry.deadline_ms
        return entry.missed >= limits.PINGS_MISSED_MAX

    def was_late(self, node_id: bytes, loop_lag_ms: int, now_ms: int) -> bool:
        """The way through the loop took too long to blame the node: looks again a little later."""
        entry = self._entries.get(node_id)
        if entry is None or loop_lag_ms <= limits.VERDICT_LAG_MS_MAX:
            return False
        self.verdicts_put_off += 1
        self._arm(node_id, entry, now_ms + limits.VERDICT_LAG_MS_MAX)
        return True

    def describe(self, node_id: bytes) -> str:
        """The evidence, for the death message."""
        entry = self._entries[node_id]
        if entry.watch is Watch.BROKEN:
            window = limits.RECONNECT_WINDOW_MS / 1_000
            return f"its session broke and did not resume within {window:g} s"
        return (
            f"{entry.missed} pings in a row unanswered,"
            f" its loop lag at the last answer was {entry.loop_lag_ms:.0f} ms"
        )

    def last_contact(self, node_id: bytes, now_ms: int) -> str:
        """When the node was heard last, for the death message."""
        entry = self._entries.get(node_id)
        if entry is None:
            return "never heard in this life of the GCS"
        return f"last contact {(now_ms - entry.heard_ms) / 1_000:.1f} s ago"

    def next_deadline_ms(self) -> int | None:
        """When `due` has something to say."""
        while self._heap:
            deadline_ms, ticket, node_id = self._heap[0]
            entry = self._entries.get(node_id)
            if entry is not None and entry.ticket == ticket:
                return deadline_ms
            heapq.heappop(self._heap)
        return None

    def due(self, now_ms: int) -> list[LivenessVerdict]:
        """Pings to send and silences to confirm."""
        verdicts: list[LivenessVerdict] = []
        while True:
            deadline_ms = self.next_deadline_ms()
            if deadline_ms is None or deadline_ms > now_ms:
                return verdicts
            _, _, node_id = heapq.heappop(self._heap)
            entry = self._entries[node_id]
            if now_ms - deadline_ms > limits.VERDICT_LAG_MS_MAX:
                # We were late: what the node sent meanwhile may still lie unread.
                self.verdicts_put_off += 1
                self._arm(node_id, entry, now_ms + limits.VERDICT_LAG_MS_MAX)
            elif entry.watch is Watch.BROKEN:
                verdicts.append(LivenessVerdict(node_id, None))
            else:
                self._silent_due(node_id, entry, now_ms, verdicts)

    def _silent_due(
        self, node_id: bytes, entry: _Entry, now_ms: int, verdicts: list[LivenessVerdict]
    ) -> None:
        quiet_since = entry.heard_ms + self._interval_ms
        if entry.missed == 0 and quiet_since > now_ms:
            self._arm(node_id, entry, quiet_since)
            return
        if entry.missed >= limits.PINGS_MISSED_MAX:
            verdicts.append(LivenessVerdict(node_id, None))
            self._arm(node_id, entry, now_ms + self._last_interval_ms)
            return
        entry.missed += 1
        self._tickets += 1
        verdicts.append(LivenessVerdict(node_id, self._tickets))
        closer = entry.missed >= limits.PINGS_MISSED_MAX - 1
        wait_ms = self._last_interval_ms if closer else self._interval_ms
        self._arm(node_id, entry, now_ms + wait_ms)

    def _arm(self, node_id: bytes, entry: _Entry, deadline_ms: int) -> None:
        self._tickets += 1
        if entry.watch is Watch.SILENT:  # together with others': a ping alone costs three wake-ups
            deadline_ms += -deadline_ms % self._tick_ms
        entry.ticket, entry.deadline_ms = self._tickets, deadline_ms
        heapq.heappush(self._heap, (deadline_ms, entry.ticket, node_id))
        if len(self._heap) > limits.DEADLINES_SHARE * max(len(self._entries), _FEW_NODES):
            # Nodes that come and go by the thousand leave deadlines that nobody waits for.
            self._heap = [(e.deadline_ms, e.ticket, key) for key, e in self._entries.items()]
            heapq.heapify(self._heap)
