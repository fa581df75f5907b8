"""Whatever is delayed, lost, cut, killed or restarted.

Books agree, groups are atomic, nothing leaks.
"""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster_api.v1 import placement_groups_pb2 as pg
from tests.unit.gcs_service.placement.placement_world import (
    PACK,
    SPREAD,
    STATES,
    STRICT_PACK,
    STRICT_SPREAD,
    World,
    group_id,
)

STRATEGIES = [PACK, SPREAD, STRICT_PACK, STRICT_SPREAD]
ON_LOSS = [pg.ON_LOSS_REPLACE, pg.ON_LOSS_RESTART, pg.ON_LOSS_WAIT]
RACKS = 2
TOPOLOGIES = [
    [],
    [],
    [("rack", STRICT_PACK)],
    [("rack", STRICT_PACK)],
    [("rack", STRICT_SPREAD)],
    [("rack", SPREAD)],
]
VERBS = [
    "create",
    "remove",
    "deliver",
    "deliver",
    "deliver",
    "answer",
    "answer",
    "answer",
    "lose_answer",
    "report",
    "report",
    "cut",
    "reconnect",
    "kill",
    "add",
    "drain",
    "lease",
    "unlease",
    "advance",
    "restart",
    "busy",
    "end_workers",
    "end_workers",
    "single",
    "end_singles",
]

steps = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 1_000)), min_size=5, max_size=70)


class Story:
    """Plays verbs on a world and checks it after each."""

    def __init__(self):
        self.world = World()
        self.made = 0
        self.added = 0
        self.leases: dict[bytes, int] = {}
        for _ in range(4):
            self.add(0)

    def play(self, verbs):
        for verb, number in verbs:
            getattr(self, verb)(number)
            self.world.check_books()
            self.check_whole()

    def agent(self, number, *, connected=True):
        agents = [
            agent
            for agent in self.world.agents.values()
            if (agent.node_id in self.world.connected) == connected
        ]
        return agents[number % len(agents)] if agents else None

    def create(self, number):
        self.made += 1
        count = number % 3 + 1
        bundle = {"CPU": (number // 3) % 3 + 1}
        bundles = [bundle] * count
        if number % 7 == 0:
            bundles = [*bundles[:-1], {"CPU": 1}]
        selectors = [{} for _bundle in bundles]
        if number % 5 == 0:
            selectors[-1] = {"rack": "r1"}
        self.world.create(
            self.made,
            bundles,
            STRATEGIES[(number // 27) % 4],
            selectors=selectors,
            topology=TOPOLOGIES[(number // 9) % len(TOPOLOGIES)],
            on_loss=ON_LOSS[(number // 108) % 3],
        )

    def remove(self, number):
        if self.made:
            self.world.remove(number % self.made + 1)

    def deliver(self, number):
        if agent := self.agent(number):
            self.world.deliver(agent, number % 3 + 1)

    def answer(self, number):
        if agent := self.agent(number):
            self.world.answer(agent, number % 3 + 1)

    def lose_answer(self, number):
        """An answer that never comes, though the session lives on."""
        agent = self.agent(number)
        if agent and self.world.answers[agent.node_id]:
            self.world.answers[agent.node_id].popleft()

    def report(self, number):
        if agent := self.agent(number):
            self.world.report(agent)

    def cut(self, number):
        if agent := self.agent(number):
            self.world.cut(agent)

    def reconnect(self, number):
        if agent := self.agent(number, connected=False):
            self.world.connect(agent)

    def kill(self, number):
        agent = self.agent(number, connected=bool(number % 3))
        if agent and len(self.world.agents) > 1:
            self.leases.pop(agent.node_id, None)
            self.world.kill(agent)

    def add(self, number):
        if len(self.world.agents) < 6:
            self.added += 1
            self.world.add(f"n{self.added}", {"CPU": 4}, rack=f"r{self.added % RACKS}")

    def drain(self, number):
        if agent := self.agent(number):
            self.world.drain(agent, draining=not agent.draining)

    def lease(self, number):
        """The agent gives room to somebody else, and nobody told the core."""
        agent = self.agent(number)
        if agent and agent.free["CPU"] > 0:
            agent.free["CPU"] -= 5_000
            self.leases[agent.node_id] = self.leases.get(agent.node_id, 0) + 5_000

    def unlease(self, number):
        agent = self.agent(number)
        if agent:
            agent.free["CPU"] += self.leases.pop(agent.node_id, 0)

    def busy(self, number):
        if agent := self.agent(number):
            agent.busy = not agent.busy

    def end_workers(self, number):
        if agent := self.agent(number, connected=bool(number % 4)):
            self.world.end_workers(agent)

    def single(self, number):
        self.world.single({"CPU": (number % 2 + 1) * 10_000})

    def end_singles(self, number):
        if agent := self.agent(number):
            agent.end_singles()

    def advance(self, number):
        self.world.advance(number * 10)

    def restart(self, number):
        if number % 4 == 0:
            self.world.restart()

    def check_whole(self):
        """A created group has every bundle committed on a node that lives or is away."""
        world = self.world
        for agent in world.agents.values():
            assert min(agent.free.values()) >= 0
        for record in world.core.records():
            if STATES[record.state] != "CREATED":
                continue
            for index, node in enumerate(record.bundle_nodes):
                agent = world.agents.get(node)
                key = (record.spec.placement_group_id, record.bundle_attempts[index])
                if agent is not None:
                    assert key in agent.committed
                    assert index in agent.held[key]

    def heal(self):
        """Everything dead is declared dead, everything else comes back."""
        world = self.world
        for agent in list(world.agents.values()):
            if agent.node_id not in world.connected:
                world.connect(agent)
        for node in world.core.expected_nodes():
            world.carry_out(world.core.node_lost(node, world.now_ms))
        world.settle()
        for agent in world.agents.values():
            agent.free["CPU"] += self.leases.pop(agent.node_id, 0)
            agent.end_singles()
            agent.busy = False
            if agent.draining:
                world.drain(agent, draining=False)
            world.report(agent)
        world.calm(60_000, 1_000)
        for agent in world.agents.values():
            world.report(agent)
        world.settle()


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_books_agree_groups_are_atomic_and_nothing_leaks(verbs):
    story = Story()
    story.play(verbs)
    story.heal()
    world = story.world
    world.check_at_rest()
    for number in range(1, story.made + 1):
        world.remove(number)
    world.calm(20_000, 1_000)
    world.check_at_rest()
    assert not world.stored
    for agent in world.agents.values():
        assert agent.free == agent.total
        assert not agent.held
        assert not agent.ending


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_everything_that_fits_an_empty_cluster_is_placed_in_the_end(verbs):
    """No starvation, no forgotten wake-up: groups are removed until all had their turn."""
    story = Story()
    story.play(verbs)
    story.heal()
    world = story.world
    seen = set()
    for _round in range(story.made + 1):
        created = [n for n in range(1, story.made + 1) if world.state(n) == "CREATED"]
        seen.update(created)
        for number in created:
            world.remove(number)
        world.calm(5_000, 500)
    for number in range(1, story.made + 1):
        record = world.record(number)
        if record is None or number in seen or STATES[record.state] == "REMOVED":
            continue
        assert record.reason in {"infeasible", "domain_incomplete", "insufficient_free"}, record
        if record.spec.on_loss != pg.ON_LOSS_WAIT:
            assert not world.core.would_fit(record.spec).fits or any(record.bundle_nodes), record


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps)
def test_the_same_history_gives_the_same_effects(verbs):
    first, second = Story(), Story()
    first.play(verbs)
    second.play(verbs)
    for number in range(1, first.made + 1):
        one = [
            r.SerializeToString(deterministic=True)
            for r in first.world.seen.get(group_id(number), [])
        ]
        two = [
            r.SerializeToString(deterministic=True)
            for r in second.world.seen.get(group_id(number), [])
        ]
        assert one == two
