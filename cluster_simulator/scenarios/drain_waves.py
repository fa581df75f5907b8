"""Nodes are drained in waves and come back as new ones; gangs move on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.nemesis import Faults, Nemesis
from cluster_simulator.owner.gang import GangPlan
from cluster_simulator.scenario import Scenario

if TYPE_CHECKING:
    from cluster_simulator.world import World

_WAVES = 3
_WAVE_US = 4_000_000
_LOSSES = (pg.ON_LOSS_REPLACE, pg.ON_LOSS_RESTART)


def _begin(world: World) -> None:
    owner = world.start_owner()
    for _ in range(max(1, len(world.machines) // 3)):
        plan = GangPlan(
            bundles=world.dice.randint(1, 3),
            cpus=2,
            actors_per_bundle=world.dice.choice([1, 2]),
            strategy=pg.PLACEMENT_STRATEGY_SPREAD,
            on_loss=world.dice.choice(_LOSSES),
        )
        owner.launch(plan)
    operator = Nemesis(world, Faults())
    for wave in range(_WAVES):
        world.heap.after(wave * _WAVE_US + 500_000, _wave, world, operator)


def _wave(world: World, operator: Nemesis) -> None:
    """A third of the nodes."""
    nodes = [agent.node_id for agent in world.agents.values() if agent.joined]
    for node_id in world.dice.sample(nodes, len(nodes) // 3):
        operator.drain(node_id, world.dice.choice([200, 1_000, 3_000]))


SCENARIO = Scenario(
    name="drain_waves",
    summary="a third of the nodes is drained, again and again; gangs move on",
    begin=_begin,
    faults=Faults(gcs_crash_ms=9_000, link_break_ms=3_000),
)
