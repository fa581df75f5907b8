"""Groups, plain tasks and detached actors compete for the same nodes while things fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_simulator.nemesis import Faults
from cluster_simulator.owner import detached
from cluster_simulator.owner.owner_process import OwnerProcess
from cluster_simulator.scenario import Scenario
from cluster_simulator.scenarios.storm import random_plan

if TYPE_CHECKING:
    from cluster_simulator.world import World

_OWNERS = 3
_WORK_MS = 12_000


def _begin(world: World) -> None:
    for _ in range(_OWNERS):
        _owner(world)
    for _ in range(4):
        at_us = world.dice.randrange(_WORK_MS * 1_000)
        world.heap.after(at_us, detached.kill, world, world.dice.choice("xyz"))
    world.heap.after(_WORK_MS * 500, _owner, world)


def _owner(world: World) -> None:
    if world.some_agent() is None:
        return
    owner = world.start_owner()
    dice = world.dice
    for _ in range(dice.randint(1, 3)):
        owner.later(dice.randrange(_WORK_MS * 600), owner.launch, random_plan(dice))
    for _ in range(dice.randint(1, 3)):
        at_us = dice.randrange(_WORK_MS * 800)
        owner.later(at_us, _submit, owner, dice.randint(1, 40), dice.choice([300, 20_000, 400_000]))
    for _ in range(dice.randint(0, 2)):
        owner.later(dice.randrange(_WORK_MS * 800), _detached, owner, dice.choice("xyz"))


def _submit(owner: OwnerProcess, count: int, task_us: int) -> None:
    owner.when_ready(lambda: owner.submit(count, cpus=1, task_us=task_us))


def _detached(owner: OwnerProcess, name: str) -> None:
    def create() -> None:
        detached.create(owner, name)

    owner.when_ready(create)


SCENARIO = Scenario(
    name="mixed",
    summary="groups, tasks and detached actors on the same nodes, with faults",
    begin=_begin,
    schedulers=2,
    faults=Faults(
        gcs_crash_ms=3_000,
        agent_crash_ms=5_000,
        worker_crash_ms=3_000,
        owner_crash_ms=12_000,
        link_break_ms=700,
        partition_ms=4_000,
        slow_ms=6_000,
        slow_disk_ms=8_000,
        drain_ms=9_000,
    ),
)
