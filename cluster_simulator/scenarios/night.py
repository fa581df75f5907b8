"""The launch of `racks`, and then an hour's faults within a minute: for large clusters at night."""

from __future__ import annotations

from cluster_simulator.nemesis import Faults
from cluster_simulator.scenario import Scenario
from cluster_simulator.scenarios import racks

SCENARIO = Scenario(
    name="night",
    summary="one gang for each rack, then nodes, workers, links and the GCS fail",
    begin=racks.SCENARIO.begin,
    nodes=36,
    rack_size=18,
    cpus=4,
    busy_ms=60_000,
    faults=Faults(
        gcs_crash_ms=20_000,
        agent_crash_ms=2_000,
        worker_crash_ms=1_000,
        link_break_ms=500,
        partition_ms=4_000,
        slow_ms=2_000,
        slow_disk_ms=15_000,
        drain_ms=5_000,
    ),
)
