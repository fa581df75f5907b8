"""What a run tells a user: how long the launch took, what still waits and why."""

from __future__ import annotations

import statistics
import time
from typing import Any

import msgspec

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_simulator.owner.gang import Gang
from cluster_simulator.run import Run, RunOptions
from cluster_simulator.scenario import Scenario

WAITING_EXPLAINED_MAX = 10
_STEP_US = 250_000
_PLACED = (pg.PLACEMENT_GROUP_STATE_CREATED,)


class GangSpan(msgspec.Struct, frozen=True):
    """One gang, milliseconds since the first was asked for; None: not yet."""

    group: str
    asked_ms: float
    placed_ms: float | None
    up_ms: float | None


class Waiting(msgspec.Struct, frozen=True):
    """One group that has no place, as `explain` says it."""

    group: str
    reason: str
    message: str


class LaunchReport(msgspec.Struct, frozen=True, kw_only=True):
    """All times are virtual, except `real_s`."""

    scenario: str
    nodes: int
    seed: int
    virtual_s: float
    real_s: float
    events: int
    gangs: int
    gangs_placed: int
    gangs_up: int
    actors: int
    actors_up: int
    placed_last_ms: float | None
    up_median_ms: float | None
    up_last_ms: float | None
    prepares_refused: int
    drivers_lost: int
    """They ended, or were taken for dead, and their gangs with them."""
    waiting_groups: int
    waiting: list[Waiting]
    faults: dict[str, int]
    spans: list[GangSpan]
    actor_times_ms: list[float]


def launch(
    scenario: Scenario,
    seed: int,
    *,
    nodes: int,
    options: RunOptions,
    virtual_s: float,
    whole: bool = False,
) -> LaunchReport:
    """Runs until everything is up if nothing can fail, else (or if `whole`) for `virtual_s`.

    Raises:
        AssertionError: an invariant does not hold at the end.
    """
    began = time.perf_counter()
    run = Run(scenario, seed, nodes, options, recording=False)
    run.join()
    world = run.world
    start_us = world.heap.now_us
    run.begin()
    end_us = start_us + round(virtual_s * 1_000_000)
    quick = not whole and not any(msgspec.structs.astuple(scenario.faults))
    while world.heap.now_us < end_us:
        run.until(min(end_us, world.heap.now_us + _STEP_US))
        gangs = world.gangs()
        if quick and gangs and all(gang.up_us is not None for gang in gangs):
            break
    run.look()
    return _report(run, start_us, time.perf_counter() - began)


def _report(run: Run, start_us: int, real_s: float) -> LaunchReport:
    world = run.world
    gangs = world.gangs()
    first_us = min((gang.asked_us for gang in gangs), default=start_us)

    def since(at_us: int | None) -> float | None:
        return None if at_us is None else (at_us - first_us) / 1_000

    spans = [
        GangSpan(
            gang.group_id[-8:].hex().lstrip("0"),
            (gang.asked_us - first_us) / 1_000,
            since(gang.placed_us),
            since(gang.up_us),
        )
        for gang in gangs
    ]
    placed = [span.placed_ms for span in spans if span.placed_ms is not None]
    up = [span.up_ms for span in spans if span.up_ms is not None]
    living = [gang for gang in gangs if gang.owner.alive]
    waiting = [gang for gang in living if gang.state not in _PLACED and not gang.removed]
    return LaunchReport(
        scenario=run.scenario.name,
        nodes=len(world.machines),
        seed=world.seed,
        virtual_s=(world.heap.now_us - start_us) / 1_000_000,
        real_s=round(real_s, 3),
        events=world.heap.count,
        gangs=len(gangs),
        gangs_placed=len(placed),
        gangs_up=len(up),
        actors=sum(len(gang.actors) for gang in gangs),
        actors_up=sum(actor.is_alive for gang in living for actor in gang.actors),
        placed_last_ms=max(placed, default=None),
        up_median_ms=statistics.median(up) if up else None,
        up_last_ms=max(up, default=None),
        prepares_refused=len(world.refused_prepares),
        drivers_lost=len(world.all_owners) - len(world.owners),
        waiting_groups=len(waiting),
        waiting=[_why(run, gang) for gang in waiting[:WAITING_EXPLAINED_MAX]],
        faults=run.nemesis.done,
        spans=spans,
        actor_times_ms=[(at_us - first_us) / 1_000 for at_us in world.actors_up_us],
    )


def _why(run: Run, gang: Gang) -> Waiting:
    name = gang.group_id[-8:].hex().lstrip("0")
    gcs = run.world.gcs
    if gcs is None:
        return Waiting(name, "gcs_away", "the GCS is down at the end of the run")
    answer: Any = gcs.core.placement.explain(gang.group_id)
    if not answer.found:
        return Waiting(name, "unknown", "the GCS has not heard of it yet")
    return Waiting(name, answer.reason, answer.message)
