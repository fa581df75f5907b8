"""Whatever peers say, no invariant of the core breaks: it refuses, ignores or takes it."""

from __future__ import annotations

import os
import random
from contextlib import suppress

import pytest

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import effects as fx
from gcs_service.core.broadcast_table import BroadcastTable
from gcs_service.core.demand_table import DemandTable
from gcs_service.core.resource_state import decode_state
from gcs_service.core.status_report import status_of
from tests.nonsense import Nonsense
from tests.unit.gcs_service.control_rig import Rig

SEEDS = range(int(os.environ.get("SHOAL_FUZZ_CORE_SEEDS", "4")))
STEPS = int(os.environ.get("SHOAL_FUZZ_CORE_STEPS", "400"))
NODES = [bytes([65 + number]) * 16 for number in range(4)]
OWNERS = [bytes([97 + number]) * 16 for number in range(4)]
GROUPS = [bytes([48 + number]) * 24 for number in range(4)]
ACTORS = [owner + bytes(7) + bytes([number]) for owner in OWNERS for number in range(3)]
JOBS = [bytes(3) + bytes([number]) for number in range(1, 4)]
SESSIONS = range(1, 7)
WATCHES = range(11, 15)


class Peers:
    """All kinds of peers of one core; they know who exists, and lie about everything else."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.rig = Rig()
        self.demand = DemandTable()
        self.broadcast = BroadcastTable(views_to_all=False)
        self.joins = 0
        self.nonsense = Nonsense(self.dice, [*NODES, *OWNERS, *GROUPS, *ACTORS, *JOBS, b""])
        self.steps = [
            self.join,
            self.node_frame,
            self.node_frame,
            self.node_frame,
            self.true_answers,
            self.close_session,
            self.group_frame,
            self.group_frame,
            self.sensible_group,
            self.detached,
            self.named,
            self.report,
            self.watch,
            self.job,
            self.operator,
            self.time_passes,
            self.restart,
            self.questions,
        ]

    def step(self) -> None:
        self.dice.choice(self.steps)()
        for opened in self.rig.take(fx.NodeSessionOpened):
            self.joins += 1
            self.broadcast.opened(opened)
        for changed in self.rig.take(fx.NodeChanged):
            self.broadcast.changed(changed.record, changed.scheduler_address)
        update = self.rig.core.take_demand(self.rig.at())
        if update is not None:
            self.demand.apply(update)

    def join(self) -> None:
        bundles = [self.nonsense.fill(ns.HeldBundle()) for _ in range(self.dice.randint(0, 2))]
        held = [self.nonsense.fill(ns.DetachedActorHeld()) for _ in range(self.dice.randint(0, 2))]
        incarnation = self.dice.randint(1, 3)
        total = t.ResourceSet(amounts={"CPU": 40_000, "GPU": 20_000})
        register = ns.RegisterNode(
            address=f"host-{self.dice.randint(0, 4)}:1",
            total=total,
            incarnation=incarnation,
            snapshot=ns.ResourceSnapshot(version=1, total=total, available=total),
            labels={"rack": self.dice.choice("ab")},
            bundles=bundles,
            detached=held,
            owner_ids=self.dice.sample(OWNERS, 2),
        )
        if self.dice.random() < 0.3:
            self.nonsense.fill(register)
        item = ns.AgentItem(node_id=self.dice.choice(NODES), register=register)
        self.frame([item])

    def frame(self, items: list[ns.AgentItem]) -> None:
        self.rig.do(self.rig.core.node_frame, self.dice.choice(SESSIONS), items)

    def node_frame(self) -> None:
        items: list[ns.AgentItem] = []
        for _ in range(self.dice.randint(1, 4)):
            item = ns.AgentItem()
            self.nonsense.fill(item)
            item.node_id = self.dice.choice(NODES)
            items.append(item)
            if item.HasField("snapshot"):
                self.broadcast.snapshot(item.node_id, item.snapshot)
        self.frame(items)

    def true_answers(self) -> None:
        session = self.dice.choice(SESSIONS)
        for entry in list(self.rig.core.membership.nodes.alive()):
            if entry.session == session:
                self.rig.answer_bundles(entry.record.node_id, session, ok=self.dice.random() < 0.7)

    def close_session(self) -> None:
        session = self.dice.choice(SESSIONS)
        self.rig.do(self.rig.core.node_session_closed, session, NODES)
        self.rig.do(self.rig.core.session_closed, self.dice.choice(WATCHES))

    def group_frame(self) -> None:
        items = [pg.GroupRequest() for _ in range(self.dice.randint(1, 3))]
        for item in items:
            self.nonsense.fill(item)
        self.rig.do(self.rig.core.group_frame, self.dice.choice(WATCHES), items)

    def sensible_group(self) -> None:
        amounts = self.dice.choice(
            [{"CPU": 10_000}, {"CPU": 20_000, "GPU": 10_000}, {"GPU": 5_000}, {"CPU": 90_000}]
        )
        bundle = pg.BundleSpec(resources=t.ResourceSet(amounts=amounts))
        level = pg.TopologyLevel(label="rack", strategy=self.dice.randint(1, 4))
        spec = pg.PlacementGroupSpec(
            placement_group_id=self.dice.choice(GROUPS),
            bundles=[bundle] * self.dice.randint(1, 4),
            strategy=self.dice.randint(1, 4),
            topology=[level] * self.dice.randint(0, 1),
            on_loss=self.dice.randint(0, 2),
            creator_owner_id=self.dice.choice(OWNERS),
        )
        item = pg.GroupRequest(create=spec)
        self.rig.do(self.rig.core.group_frame, self.dice.choice(WATCHES), [item])

    def detached(self) -> None:
        request = g.CreateDetachedActorRequest()
        self.nonsense.fill(request)
        request.actor.actor_id = self.dice.choice(ACTORS)
        if self.dice.random() < 0.5:
            request.start.Clear()
            request.scheduling.Clear()
            request.start.resources.amounts["CPU"] = 10_000
            request.actor.state = t.ACTOR_STATE_PENDING_CREATION
            request.actor.death.Clear()
        self.rig.do(self.rig.core.actor_desk.create_detached, request)

    def named(self) -> None:
        self.rig.do(self.rig.core.actor_desk.register_named, self.record())

    def report(self) -> None:
        records = [self.record() for _ in range(self.dice.randint(1, 4))]
        self.rig.do(self.rig.core.actor_desk.report, self.dice.choice(OWNERS), records)

    def record(self) -> t.ActorRecord:
        record = t.ActorRecord()
        self.nonsense.fill(record)
        record.actor_id = self.dice.choice(ACTORS)
        if self.dice.random() < 0.7:
            record.owner_id = record.actor_id[:16]
            record.detached = False
        return record

    def watch(self) -> None:
        session = self.dice.choice(WATCHES)
        desk = self.rig.core.actor_desk
        self.rig.do(desk.watch, session, self.dice.sample(ACTORS, 3))
        self.rig.do(desk.unwatch, session, self.dice.sample(ACTORS, 2))
        self.rig.do(self.rig.core.watch_group, session, self.dice.choice(GROUPS))

    def job(self) -> None:
        job = g.JobRecord()
        self.nonsense.fill(job)
        core = self.rig.core
        self.rig.do(core.add_job, job)
        self.rig.do(core.finish_job, self.dice.choice(JOBS))
        self.rig.do(core.driver_gone, self.dice.choice(JOBS))

    def operator(self) -> None:
        core, node_id = self.rig.core, self.dice.choice(NODES)
        if self.dice.random() < 0.3:
            self.rig.do(core.drain_node, node_id, self.dice.randint(1, 2), "told", 0)
        self.rig.do(core.withdraw_drain, self.dice.choice(NODES))
        self.rig.do(core.node_port_refused, self.dice.choice(NODES))
        actor_id = self.dice.choice(ACTORS)
        core.detached.kill(
            actor_id,
            no_restart=self.dice.random() < 0.5,
            graceful=self.dice.random() < 0.5,
            at=self.rig.at(),
        )
        self.rig.drain()

    def time_passes(self) -> None:
        self.rig.advance(self.dice.choice([0, 10, 500, 6_000, 40_000]))

    def restart(self) -> None:
        if self.dice.random() < 0.2:
            self.rig = self.rig.restarted()
            self.demand = DemandTable()

    def questions(self) -> None:
        core, dice = self.rig.core, self.dice
        status_of(core, self.rig.at())
        decode_state(self.demand, self.rig.at().mono_ms)
        core.placement.explain(dice.choice(GROUPS))
        for node_id in NODES:
            core.placement.ledger(node_id)
        spec = pg.PlacementGroupSpec()
        self.nonsense.fill(spec)
        # The counter of that question refuses what contradicts itself with this sentence.
        with suppress(ValueError):
            core.placement.would_fit(spec)


@pytest.mark.parametrize("seed", SEEDS)
def test_nonsense_breaks_no_invariant(seed: int) -> None:
    peers = Peers(seed)
    for number in range(STEPS):
        try:
            peers.step()
        except Exception as error:
            raise AssertionError(f"seed {seed}, step {number}: {error!r}") from error
    assert peers.joins, "nothing happened at all"
