"""Whatever owners, workers and peers of the GCS say, no invariant of the agent's core breaks."""

from __future__ import annotations

import os
import random

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from tests.nonsense import Nonsense
from tests.unit.raylet_agent.agent_world import HERE, JOB, World, lease_id, request

SEEDS = range(int(os.environ.get("SHOAL_FUZZ_CORE_SEEDS", "4")))
STEPS = int(os.environ.get("SHOAL_FUZZ_CORE_STEPS", "400"))
OWNERS = [bytes([97 + number]) * 16 for number in range(3)]
LEASES = [lease_id(number, owner) for owner in OWNERS for number in range(1, 5)]
GROUPS = [bytes([48 + number]) * 24 for number in range(3)]
OTHERS = [bytes([65 + number]) * 16 for number in range(2)]


class Peers:
    """Everybody who talks to one agent; they know who exists, and lie about everything else."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.world = World(scheduler=seed % 2 == 0, CPU=4, GPU=2)
        known = [*OWNERS, *LEASES, *GROUPS, *OTHERS, HERE, JOB, b""]
        self.nonsense = Nonsense(self.dice, known)
        self.steps = [
            self.open,
            self.owner_frame,
            self.owner_frame,
            self.sensible_request,
            self.sensible_request,
            self.sensible_return,
            self.gcs_item,
            self.gcs_item,
            self.sensible_bundle,
            self.view,
            self.worker_items,
            self.worker_ends,
            self.session_lost,
            self.probed,
            self.time_passes,
            self.questions,
        ]

    def step(self) -> None:
        self.dice.choice(self.steps)()
        self.world.run()

    def open(self) -> None:
        opening = a.OpenOwner()
        self.nonsense.fill(opening)
        opening.owner_id = self.dice.choice(OWNERS)
        world = self.world
        if not world.core.owners.is_dead(opening.owner_id, world.now_ms):
            assert world.core.owner_opened(opening, world.now_ms) is not None

    def owner_frame(self) -> None:
        items = [self.nonsense.fill(a.OwnerItem()) for _ in range(self.dice.randint(1, 3))]
        self.world.core.owner_items(self.dice.choice(OWNERS), items, self.world.now_ms)

    def sensible_request(self) -> None:
        owner, dice = self.dice.choice(OWNERS), self.dice
        asked = request(
            dice.randint(1, 4),
            owner,
            actor=dice.random() < 0.3,
            group=dice.choice([b"", b"", *GROUPS]),
            index=dice.randint(-1, 2),
            resources=dice.choice([{"CPU": 1}, {"CPU": 9}, {"GPU": 0.5}, {}]),
        )
        self.world.core.owner_items(owner, [a.OwnerItem(request=asked)], self.world.now_ms)

    def sensible_return(self) -> None:
        lease = self.dice.choice(LEASES)
        back = a.LeaseReturn(lease_ids=[lease], kill_worker=self.dice.random() < 0.3)
        self.world.core.owner_items(lease[:16], [a.OwnerItem(return_lease=back)], self.world.now_ms)

    def gcs_item(self) -> None:
        item = n.GcsItem()
        self.nonsense.fill(item)
        item.node_id = HERE
        # The host knows what it was told itself.
        if item.WhichOneof("item") not in ("welcome", "refused", "ping"):
            self.world.core.gcs_item(item, self.world.now_ms)

    def sensible_bundle(self) -> None:
        bundles = [
            n.Bundle(index=index, resources=t.ResourceSet(amounts={"CPU": 10_000}))
            for index in self.dice.sample(range(3), self.dice.randint(1, 2))
        ]
        command = n.BundleCommand(
            action=self.dice.randint(1, 5),
            placement_group_id=self.dice.choice(GROUPS),
            attempt=self.dice.randint(1, 2),
            reservation_seq=self.dice.randint(0, 9),
            bundles=bundles,
        )
        self.world.core.gcs_item(n.GcsItem(node_id=HERE, bundle=command), self.world.now_ms)

    def view(self) -> None:
        view = n.NodeView()
        self.nonsense.fill(view)
        view.node_id = self.dice.choice(OTHERS)
        self.world.core.gcs_item(n.GcsItem(node_id=HERE, view=view), self.world.now_ms)

    def worker_items(self) -> None:
        items = [self.nonsense.fill(a.WorkerItem()) for _ in range(self.dice.randint(1, 3))]
        for worker in list(self.world.core.pool.rows())[:2]:
            self.world.core.worker_items(worker.worker_id, items, self.world.now_ms)
            self.world.run()

    def worker_ends(self) -> None:
        workers = list(self.world.core.pool.rows())
        if workers:
            worker = self.dice.choice(workers)
            if self.dice.random() < 0.5:
                self.world.core.link_lost(worker.worker_id, self.world.now_ms)
            else:
                self.world.core.worker_ended(worker.worker_id, -9, "x", self.world.now_ms)

    def session_lost(self) -> None:
        self.world.core.session_lost(self.dice.choice(OWNERS), self.world.now_ms)

    def probed(self) -> None:
        refused = self.dice.random() < 0.3
        owner = self.dice.choice(OWNERS)
        self.world.core.owner_probed(owner, refused=refused, now_ms=self.world.now_ms)

    def time_passes(self) -> None:
        self.world.advance(self.dice.choice([0, 10, 500, 3_000, 700_000]))

    def questions(self) -> None:
        core = self.world.core
        if self.dice.random() < 0.2:
            core.registering(self.world.now_ms)
            core.registration(1, 0).SerializeToString()
            core.welcomed(n.Welcome(cluster_id=b"c" * 16, epoch=1), self.world.now_ms)
        core.snapshots.build(with_groups=True).SerializeToString()
        core.snapshots.demand().SerializeToString()
        self.world.run()
        assert core.ledger.check() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_nonsense_breaks_no_invariant(seed: int) -> None:
    peers = Peers(seed)
    for number in range(STEPS):
        try:
            peers.step()
        except Exception as error:
            raise AssertionError(f"seed {seed}, step {number}: {error!r}") from error
    # An agent that the dice drained early takes no work.
    assert peers.world.spawned or peers.world.ends, "nothing happened at all"
