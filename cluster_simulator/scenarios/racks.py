"""A launch: one gang for each rack, one bundle for each of its nodes; nothing fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.owner.gang import GangPlan
from cluster_simulator.scenario import Scenario

if TYPE_CHECKING:
    from cluster_simulator.world import World


def _begin(world: World) -> None:
    load = world.load
    bundles = load.bundles or min(world.rack_size, len(world.machines))
    gangs = load.gangs or max(1, len(world.machines) // bundles)
    owner = world.start_owner()
    plan = GangPlan(
        bundles=bundles,
        cpus=load.bundle_cpus or 4,
        actors_per_bundle=load.actors_per_bundle,
        strategy=pg.PLACEMENT_STRATEGY_STRICT_SPREAD,
        rack=pg.PLACEMENT_STRATEGY_STRICT_PACK,
    )
    for _ in range(gangs):
        owner.launch(plan)


SCENARIO = Scenario(
    name="racks",
    summary="one gang for each rack, one bundle for each node, four actors in each bundle",
    begin=_begin,
    nodes=36,
    rack_size=18,
    cpus=4,
    exact_ledger=True,
)
