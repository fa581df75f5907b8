"""Drivers that come and go leave nothing that grows (FIELD_REPORTS O-17)."""

from __future__ import annotations

from benchmarks import soak

ROUNDS = 20
ACTORS = 5
TASKS = 20
HISTORY_ROWS = 5
GROWTH_MIB_MAX = 8
"""Over the rounds after warm-up; allocators and SQLite's log breathe by less than this."""


def test_rows_disk_and_memory_are_flat_after_warm_up():
    result = soak.run(ROUNDS, ACTORS, TASKS, HISTORY_ROWS)
    before, after = result["rows_after_warm_up"], result["rows_at_the_end"]
    # Tombstones of owners live for ten minutes and are capped by number.
    grown = {name for name in after if after[name] > before[name]} - {"owner"}
    assert grown == set(), (before, after)
    assert after["job_finished"] == HISTORY_ROWS
    assert after["actor_dead"] == HISTORY_ROWS
    for figure in ("disk_mib", "gcs_rss_mib", "agent_rss_mib", "driver_rss_mib"):
        growth = result[figure]["at_the_end"] - result[figure]["after_warm_up"]
        assert growth < GROWTH_MIB_MAX, (figure, result[figure])
    assert result["open_files"]["at_the_end"] <= result["open_files"]["after_warm_up"] + 2
