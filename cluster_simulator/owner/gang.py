"""One placement group and the actors that live in its bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import RESOURCE_UNIT
from cluster_simulator.owner.owned_actor import OwnedActor
from driver_client.core.bundle_choice import BundleChoice

if TYPE_CHECKING:
    from cluster_simulator.owner.owner_process import OwnerProcess


class GangPlan(msgspec.Struct, frozen=True):
    """What to launch. `cpus` of each bundle, shared by its actors."""

    bundles: int
    cpus: int = 1
    actors_per_bundle: int = 1
    strategy: pg.PlacementStrategy.ValueType = pg.PLACEMENT_STRATEGY_PACK
    rack: pg.PlacementStrategy.ValueType = pg.PLACEMENT_STRATEGY_UNSPECIFIED
    """How racks are used; unspecified: they do not matter."""
    on_loss: pg.OnLoss.ValueType = pg.ON_LOSS_REPLACE
    name: str = ""
    lives_us: int = 0
    """Removed after this time; 0: stays."""


class Gang:
    """A group, its actors and when it came up."""

    def __init__(self, owner: OwnerProcess, plan: GangPlan) -> None:
        self.owner = owner
        self.plan = plan
        self.group_id = owner.next_id()
        self.record: pg.PlacementGroupRecord | None = None
        self.choice = BundleChoice()
        self.asked_us = owner.heap.now_us
        self.placed_us: int | None = None
        self.up_us: int | None = None
        self.removed = False
        per_actor = plan.cpus * RESOURCE_UNIT // max(1, plan.actors_per_bundle)
        self.actor_resources = t.ResourceSet(amounts={"CPU": per_actor})
        self.actors = [
            OwnedActor(self, owner.next_id(), index, max_restarts=-1)
            for index in range(plan.bundles)
            for _ in range(plan.actors_per_bundle)
        ]

    @property
    def state(self) -> int:
        """Of the group, as far as the owner knows."""
        return 0 if self.record is None else self.record.state

    def launch(self) -> None:
        """Creates the group and asks for all actors; they wait for it."""
        plan, owner = self.plan, self.owner
        bundle = pg.BundleSpec(resources=t.ResourceSet(amounts={"CPU": plan.cpus * RESOURCE_UNIT}))
        spec = pg.PlacementGroupSpec(
            placement_group_id=self.group_id,
            name=plan.name,
            bundles=[bundle] * plan.bundles,
            strategy=plan.strategy,
            on_loss=plan.on_loss,
            job_id=owner.job_id,
            creator_owner_id=owner.owner_id,
        )
        if plan.rack:
            spec.topology.add(label="rack", strategy=plan.rack)
        owner.groups.create(spec, self._changed)
        for actor in self.actors:
            actor.start()
        if plan.lives_us:
            owner.later(plan.lives_us, self.remove)

    def remove(self) -> None:
        """The user gives the group back; its actors die with it."""
        if not self.removed:
            self.removed = True
            self.owner.groups.remove(self.group_id)

    def _changed(self, record: pg.PlacementGroupRecord) -> None:
        self.record = record
        story = self.owner.world.story
        if story.is_on:
            state = pg.PlacementGroupState.Name(record.state)
            story.note(f"{self.owner.name} sees {state}", self.group_id)
        if record.state == pg.PLACEMENT_GROUP_STATE_CREATED and self.placed_us is None:
            self.placed_us = self.owner.heap.now_us
        for actor in self.actors:
            if actor.waits_for_group:
                actor.route()

    def actor_changed(self, actor: OwnedActor) -> None:
        """Counts who is up."""
        if actor.is_alive and not actor.was_up:
            actor.was_up = True
            self.owner.world.actors_up_us.append(self.owner.heap.now_us)
        if self.up_us is None and all(one.is_alive for one in self.actors):
            self.up_us = self.owner.heap.now_us
            self.owner.world.gang_up(self)
