"""Drivers that come and go leave nothing that grows (FIELD_REPORTS O-17)."""

from __future__ import annotations

from benchmarks import soak

ROUNDS = 20
ACTORS = 5
TASKS = 20
HISTORY_ROWS = 5
GROWTH_MIB_MAX = 8
"""Over the rounds after warm-up; allocators and SQLite's log breathe by less than this."""


FEW = 2
BREATHING = (
    "owner",
    "placement_group",
    "group_removed",
    "driver_watch",
    "queue_",
    "session",
    "probe",
    "liveness_deadline",
    "group_deadline",
    "kv_expiry",
    "demand_",
    "request_shape",
    "room_",
)
"""Names of rows that depend on the moment of the look, or stay for a while under a cap: tombstones
of owners and of removed groups (so many at most), a driver's next turn to be dialled (30 s)."""


def test_rows_disk_and_memory_are_flat_after_warm_up():
    result = soak.run(ROUNDS, ACTORS, TASKS, HISTORY_ROWS)
    before, after = result["rows_after_warm_up"], result["rows_at_the_end"]
    # Tombstones of owners live for ten minutes and are capped; queues and deadlines breathe.
    kept = {name for name in after if not name.startswith(BREATHING)}
    grown = {name for name in kept if after[name] > before[name]}
    assert grown == set(), (before, after)
    assert after["job_finished"] == HISTORY_ROWS
    assert after["actor_dead"] == HISTORY_ROWS
    for name, rows in after.items():
        assert rows <= result["rows_max"][name], name
    for figure in (*soak.MEMORY, *soak.DISK):
        growth = result[figure]["at_the_end"] - result[figure]["after_warm_up"]
        assert growth < GROWTH_MIB_MAX, (figure, result[figure])
    for figure in ("gcs_files", "driver_files", "driver_threads"):
        growth = result[figure]["at_the_end"] - result[figure]["after_warm_up"]
        assert growth <= FEW, (figure, result[figure])
