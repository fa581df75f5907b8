"""A placement core with model agents around it: real messages, queues instead of a network.

Nothing moves unless a test says so.
"""

from __future__ import annotations

import random
from collections import deque

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core.placement.effects import (
    ForgetGroup,
    GroupAccepted,
    GroupChanged,
    GroupRefused,
    PersistGroup,
    RemovalAccepted,
    SendBundle,
)
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.placement.single import PickRequest
from tests.unit.gcs_service.placement.placement_agent import Agent, units

PACK = pg.PLACEMENT_STRATEGY_PACK
SPREAD = pg.PLACEMENT_STRATEGY_SPREAD
STRICT_PACK = pg.PLACEMENT_STRATEGY_STRICT_PACK
STRICT_SPREAD = pg.PLACEMENT_STRATEGY_STRICT_SPREAD
STATES = {
    number: name.removeprefix("PLACEMENT_GROUP_STATE_")
    for name, number in pg.PlacementGroupState.items()
}


def group_id(number: int) -> bytes:
    return number.to_bytes(24, "big")


def make_spec(number, bundles, strategy=PACK, *, selectors=None, topology=(), **fields):
    selectors = selectors or [{}] * len(bundles)
    return pg.PlacementGroupSpec(
        placement_group_id=group_id(number),
        bundles=[
            pg.BundleSpec(
                resources=t.ResourceSet(amounts=units(bundle)),
                selector=t.LabelSelector(terms=selector),
            )
            for bundle, selector in zip(bundles, selectors, strict=True)
        ],
        strategy=strategy,
        topology=[pg.TopologyLevel(label=label, strategy=level) for label, level in topology],
        **fields,
    )


class World:
    """Core, agents, one command queue and one answer queue per node, storage, watchers."""

    def __init__(self, seed=0):
        self.seed = seed
        self.epoch = 1
        self.core = PlacementCore(random.Random(seed))
        self.now_ms = 1_000
        self.agents: dict[bytes, Agent] = {}
        self.connected: set[bytes] = set()
        self.commands: dict[bytes, deque] = {}
        self.answers: dict[bytes, deque] = {}
        self.stored: dict[bytes, pg.PlacementGroupRecord] = {}
        self.seen: dict[bytes, list[pg.PlacementGroupRecord]] = {}
        self.replies: list[object] = []
        self.effects: list[object] = []

    @property
    def wall_ms(self):
        return self.now_ms + 1_000_000

    def carry_out(self, effects):
        self.effects = effects
        for effect in effects:
            match effect:
                case PersistGroup(record):
                    copy = pg.PlacementGroupRecord()
                    copy.CopyFrom(record)
                    self.stored[record.spec.placement_group_id] = copy
                case ForgetGroup(gone):
                    self.stored.pop(gone, None)
                case SendBundle(node, command):
                    if node in self.connected:
                        self.commands[node].append(command)
                case GroupChanged(record):
                    self.seen.setdefault(record.spec.placement_group_id, []).append(record)
                case GroupAccepted() | GroupRefused() | RemovalAccepted():
                    self.replies.append(effect)
        return effects

    # ---- nodes

    def add(self, name, total=None, **labels):
        agent = Agent(name, total or {"CPU": 4}, labels)
        self.agents[agent.node_id] = agent
        self.connect(agent)
        return agent

    def connect(self, agent):
        self.commands[agent.node_id] = deque()
        self.answers[agent.node_id] = deque()
        self.connected.add(agent.node_id)
        agent.applied = 0
        return self.carry_out(
            self.core.node_joined(
                agent.node_id,
                f"{agent.name}:1",
                agent.labels,
                agent.snapshot(),
                agent.statement(),
                self.now_ms,
            )
        )

    def cut(self, agent):
        """The session breaks: what was on its way is lost."""
        self.connected.discard(agent.node_id)
        self.commands[agent.node_id].clear()
        self.answers[agent.node_id].clear()
        self.carry_out(self.core.node_disconnected(agent.node_id))

    def kill(self, agent):
        agent.alive = False
        if agent.node_id in self.connected:
            self.cut(agent)
        del self.agents[agent.node_id]
        return self.carry_out(self.core.node_lost(agent.node_id, self.now_ms))

    def report(self, agent):
        if agent.node_id in self.connected:
            self.carry_out(self.core.node_snapshot(agent.node_id, agent.snapshot(), self.now_ms))

    def drain(self, agent, draining=True):
        agent.draining = draining
        self.carry_out(
            self.core.node_draining(agent.node_id, draining=draining, now_ms=self.now_ms)
        )

    # ---- groups

    def create(self, number, bundles, strategy=PACK, **fields):
        return self.carry_out(
            self.core.create(
                make_spec(number, bundles, strategy, **fields), self.now_ms, self.wall_ms
            )
        )

    def remove(self, number):
        return self.carry_out(self.core.remove(group_id(number), self.now_ms, self.wall_ms))

    def state(self, number):
        record = self.core.record(group_id(number))
        return "UNKNOWN" if record is None else STATES[record.state]

    def record(self, number):
        return self.core.record(group_id(number))

    def places(self, number):
        names = {agent.node_id: agent.name for agent in self.agents.values()}
        return [names.get(node, "") for node in self.core.record(group_id(number)).bundle_nodes]

    # ---- movement

    def deliver(self, agent, count=1):
        """The agent receives commands; its answers wait."""
        queue = self.commands[agent.node_id]
        for _ in range(min(count, len(queue))):
            command = queue.popleft()
            if isinstance(command, tuple):
                if not agent.start_single(*command):
                    refused = self.core.release(agent.node_id, command[0], self.now_ms)
                    self.carry_out(refused)
                continue
            answer = agent.obey(command)
            if answer is not None:
                self.answers[agent.node_id].append(answer)

    def single(self, amounts):
        """Picks a node, reserves there, sends the start."""
        pick = self.core.pick_node(PickRequest(amounts))
        if pick.node_id:
            number = self.core.reserve(pick.node_id, amounts)
            self.commands[pick.node_id].append((number, amounts))
        return pick

    def end_workers(self, agent):
        """Workers in returned bundles end; the answers go out if there is a session."""
        answers = agent.end_workers()
        if agent.node_id in self.connected:
            self.answers[agent.node_id].extend(answers)

    def answer(self, agent, count=1):
        """The core receives answers."""
        queue = self.answers[agent.node_id]
        for _ in range(min(count, len(queue))):
            self.carry_out(
                self.core.bundle_answer(agent.node_id, queue.popleft(), self.now_ms, self.wall_ms)
            )

    def settle(self, *, report=True):
        """Everything on its way arrives, until nothing moves."""
        for _ in range(10_000):
            moved = False
            for agent in list(self.agents.values()):
                if self.commands[agent.node_id] or self.answers[agent.node_id] or agent.ending:
                    moved = True
                    self.deliver(agent, 1_000)
                    self.end_workers(agent)
                    self.answer(agent, 1_000)
                    if report:
                        self.report(agent)
            if not moved:
                return
        raise AssertionError("the cluster does not come to rest")

    def advance(self, ms):
        """Time passes, timers fire."""
        target = self.now_ms + ms
        while (due := self.core.next_deadline_ms()) is not None and due <= target:
            self.now_ms = max(self.now_ms, due)
            self.carry_out(self.core.tick(self.now_ms))
        self.now_ms = target

    def calm(self, ms=20_000, step_ms=500):
        """Time passes in a healthy cluster until all retries are over."""
        for _ in range(ms // step_ms):
            self.settle()
            self.advance(step_ms)
        self.settle()

    def restart(self):
        """The GCS dies and loads what it stored; sessions are gone, agents do not notice."""
        self.epoch += 1
        for agent in self.agents.values():
            self.connected.discard(agent.node_id)
            self.commands[agent.node_id].clear()
            self.answers[agent.node_id].clear()
        self.core = PlacementCore(random.Random(self.seed))
        self.carry_out(self.core.load(list(self.stored.values()), self.now_ms, self.epoch))

    # ---- checks

    def check_books(self):
        """The core's own books agree with each other."""
        state = self.core._state
        assert not state.out
        for node in state.nodes.values():
            assert (node in state.index) == node.usable
            if node.usable:
                assert state.index.class_of(node) is node.room_class
            for key, holding in node.holdings.items():
                assert holding.key == key
                group = state.groups.get(holding.group_id)
                if group is not None:
                    assert group.holdings[node.node_id, holding.attempt] is holding
        for group in state.groups.values():
            for (holder, _attempt), holding in group.holdings.items():
                assert state.nodes[holder].holdings[holding.key] is holding
            waits = group.wait_class is not None
            trying = group.attempt is not None
            removing = STATES[group.state] == "REMOVING"
            if STATES[group.state] == "CREATED":
                assert not waits
                assert not trying
                assert all(node is not None and node.joined for node in group.nodes) or (
                    self.core.expected_nodes()
                )
            elif not removing:
                one = [waits, trying, group.parked].count(True)
                assert one == 1, f"{STATES[group.state]}: {waits} {trying} {group.parked}"

    def check_at_rest(self):
        """Nothing is on its way.

        The agents hold exactly what the core says, and the room agrees.
        """
        self.check_books()
        expected: dict[bytes, dict[tuple[bytes, int], set[int]]] = {}
        for record in self.core.records():
            group = record.spec.placement_group_id
            assert STATES[record.state] != "REMOVING", "a removal did not end"
            for index, node in enumerate(record.bundle_nodes):
                if node:
                    key = (group, record.bundle_attempts[index])
                    expected.setdefault(node, {}).setdefault(key, set()).add(index)
        for agent in self.agents.values():
            holds = {key: set(bundles) for key, bundles in agent.held.items()}
            assert holds == expected.pop(agent.node_id, {}), f"{agent.name} {agent.log}"
            assert set(agent.held) == agent.committed
            assert min(agent.free.values()) >= 0
            ledger = self.core.ledger(agent.node_id)
            assert ledger.uncovered == 0
            assert ledger.room == {k: v for k, v in agent.free.items() if v}
        assert not expected, "bundles on nodes that do not exist"
