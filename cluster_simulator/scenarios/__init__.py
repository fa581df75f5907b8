"""Scenarios by name, one a file."""

from __future__ import annotations

from cluster_simulator.scenario import Scenario
from cluster_simulator.scenarios import (
    churn,
    drain_waves,
    late_sync,
    mixed,
    night,
    owner_death,
    racks,
    storm,
)

_FILES = (racks, churn, owner_death, drain_waves, late_sync, mixed, storm, night)
BY_NAME: dict[str, Scenario] = {file.SCENARIO.name: file.SCENARIO for file in _FILES}
