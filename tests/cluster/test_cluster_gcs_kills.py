"""The control service dies at random moments under load; nothing acknowledged is lost."""

from __future__ import annotations

from benchmarks import gcs_kills

KILLS = 15


def test_after_kills_at_random_moments_everything_acknowledged_is_there_and_books_agree():
    result = gcs_kills.run(KILLS, seed=7)
    assert result["problems"] == []
    assert result["keys_acknowledged"] > KILLS
    assert result["groups_made"] > KILLS
