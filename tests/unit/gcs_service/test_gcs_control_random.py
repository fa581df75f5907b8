"""Random lives of a small cluster: crashes of the service between any two effects, deaths of nodes,
groups and detached actors that come and go. First faults, then calm: everything must agree."""

from __future__ import annotations

import random
from collections import deque

import pytest

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import effects as fx
from gcs_service.core import tables
from gcs_service.core.tables import Write
from tests.unit.gcs_service.control_rig import CLUSTER, Rig, actor_id, detached, group_spec

TAKES = (ns.BUNDLE_ACTION_PREPARE, ns.BUNDLE_ACTION_PREPARE_AND_COMMIT)
COMMITS = (ns.BUNDLE_ACTION_COMMIT, ns.BUNDLE_ACTION_PREPARE_AND_COMMIT)
GIVES_BACK = (ns.BUNDLE_ACTION_CANCEL, ns.BUNDLE_ACTION_RETURN)
CPUS = 3


class SimulatedAgent:
    """Holds bundles and detached actors; both directions of its stream are queues that may lag."""

    def __init__(self, number):
        self.node_id = bytes([number]) * 16
        self.session = 0
        self.bundles = {}
        self.actors = {}
        self.inbox, self.outbox = deque(), deque()
        self.version = self.applied = 0

    def free(self):
        used = sum(b.resources.amounts["CPU"] for b in self.bundles.values())
        return CPUS * 10_000 - used - 10_000 * len(self.actors)

    def snapshot(self):
        self.version += 1
        return ns.ResourceSnapshot(
            version=self.version,
            total=t.ResourceSet(amounts={"CPU": CPUS * 10_000}),
            available=t.ResourceSet(amounts={"CPU": self.free()}),
            applied_reservations=self.applied,
        )

    def register(self):
        self.inbox.clear()
        self.outbox.clear()
        self.applied = 0
        held = [
            ns.DetachedActorHeld(
                actor_id=a, incarnation=i, worker_address="w", worker_id=self.node_id, pid=1
            )
            for a, i in self.actors.items()
        ]
        self.say(
            register=ns.RegisterNode(
                cluster_id=CLUSTER,
                address=f"host:{self.node_id[0]}",
                total=t.ResourceSet(amounts={"CPU": CPUS * 10_000}),
                bundles=list(self.bundles.values()),
                detached=held,
                snapshot=self.snapshot(),
            )
        )

    def say(self, **item):
        self.outbox.append(ns.AgentItem(node_id=self.node_id, **item))

    def take(self, item):
        kind = item.WhichOneof("item")
        if kind == "bundle":
            self._bundle(item.bundle)
        elif kind == "start_detached_actor":
            self._start(item.start_detached_actor)
        elif kind == "kill_detached_actor":
            kill = item.kill_detached_actor
            if self.actors.get(kill.actor_id) == kill.incarnation:
                self.end_actor(kill.actor_id, intended=True)
        self.say(snapshot=self.snapshot())

    def _bundle(self, command):
        self.applied = max(self.applied, command.reservation_seq)
        group, ok = command.placement_group_id, True
        mine = [k for k in self.bundles if k[0] == group and k[1] == command.attempt]
        if command.action in TAKES and not mine:
            ok = sum(b.resources.amounts["CPU"] for b in command.bundles) <= self.free()
            for bundle in command.bundles if ok else ():
                self.bundles[group, command.attempt, bundle.index] = ns.HeldBundle(
                    placement_group_id=group,
                    index=bundle.index,
                    attempt=command.attempt,
                    resources=bundle.resources,
                )
        elif command.action in GIVES_BACK:
            named = {bundle.index for bundle in command.bundles}
            for key in [k for k in self.bundles if k[0] == group]:
                same = key[1] == command.attempt or command.action == ns.BUNDLE_ACTION_RETURN
                if same and (not named or key[2] in named):
                    del self.bundles[key]
        if command.action in COMMITS and ok:
            held = [k for k in self.bundles if k[0] == group and k[1] == command.attempt]
            ok = bool(held)
            for key in held:
                self.bundles[key].committed = True
        self.say(
            bundle_answer=ns.BundleAnswer(
                action=command.action,
                placement_group_id=group,
                attempt=command.attempt,
                ok=ok,
                reason="" if ok else "insufficient_free",
                indexes=[bundle.index for bundle in command.bundles],
            )
        )

    def _start(self, start):
        self.applied = max(self.applied, start.reservation_seq)
        if self.actors.get(start.actor_id, 0) >= start.incarnation:
            return
        kind = ns.DETACHED_ACTOR_EVENT_KIND_REFUSED
        if self.free() >= 10_000:
            kind = ns.DETACHED_ACTOR_EVENT_KIND_STARTED
            self.actors[start.actor_id] = start.incarnation
        self._event(start.actor_id, start.incarnation, kind)

    def end_actor(self, actor, *, intended=False):
        incarnation = self.actors.pop(actor)
        kind = ns.DETACHED_ACTOR_EVENT_KIND_ENDED
        self._event(actor, incarnation, kind, intended=intended)
        self.say(snapshot=self.snapshot())

    def _event(self, actor, incarnation, kind, **fields):
        event = ns.DetachedActorEvent(
            actor_id=actor, incarnation=incarnation, kind=kind, **fields,
            worker_address="w", worker_id=self.node_id, pid=1,
        )  # fmt: skip
        self.say(detached_actor=event)


class CrashingRig(Rig):
    """Carries out `crash_after` effects only, when set: the rest is lost with the process."""

    crash_after = None

    def drain(self):
        for effect in self.core.take_effects(self.at()):
            if self.crash_after is not None:
                self.crash_after -= 1
                if self.crash_after < 0:
                    return
            if isinstance(effect, Write):
                table = self.rows[effect.table]
                if effect.value is None:
                    table.pop(effect.key, None)
                else:
                    table[effect.key] = effect.value
            elif isinstance(effect, fx.Tell):
                self.told.setdefault(effect.session, []).append(effect.item)
            else:
                self.others.append(effect)


class World:
    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.rig = CrashingRig()
        self.sessions = 100
        self.numbers = 0
        self.agents = []
        self.epoch = 1
        for _ in range(3):
            self.add_agent()

    def add_agent(self):
        self.numbers += 1
        agent = SimulatedAgent(self.numbers)
        self.agents.append(agent)
        self.connect(agent)

    def connect(self, agent):
        self.sessions += 1
        agent.session = self.sessions
        agent.register()

    def deliver(self, agent):
        """One item each way, if there is one."""
        for item in self.rig.told.pop(agent.session, []):
            agent.inbox.append(item)
        if agent.inbox and self.dice.random() < 0.7:
            agent.take(agent.inbox.popleft())
        if agent.outbox and self.dice.random() < 0.7:
            item = agent.outbox.popleft()
            self.rig.do(self.rig.core.node_frame, agent.session, [item])

    def crash(self):
        """The service dies in the middle of its next effects and comes back."""
        self.rig.crash_after = self.dice.randrange(4)
        for agent in self.agents:
            self.deliver(agent)
        self.epoch += 1
        self.rig = CrashingRig(self.rig.rows, self.epoch, self.rig.now_ms)
        for agent in self.agents:
            self.connect(agent)

    def kill_agent(self):
        agent = self.agents.pop(self.dice.randrange(len(self.agents)))
        self.rig.do(self.rig.core.node_session_closed, agent.session, [agent.node_id])
        self.rig.do(self.rig.core.node_port_refused, agent.node_id)
        self.add_agent()

    def break_session(self):
        agent = self.dice.choice(self.agents)
        self.rig.do(self.rig.core.node_session_closed, agent.session, [agent.node_id])
        self.connect(agent)

    def act(self):
        core, dice = self.rig.core, self.dice
        name = dice.choice("xyz")
        choice = dice.random()
        if choice < 0.3:
            self.numbers += 1
            spec = group_spec(self.numbers, dice.randint(1, 3), detached=True)
            spec.strategy = dice.choice([1, 2, 4])
            self.rig.do(core.group_frame, 1, [pg.GroupRequest(create=spec)])
        elif choice < 0.5 and core.placement.records():
            group = dice.choice(core.placement.records()).spec.placement_group_id
            self.rig.do(core.group_frame, 1, [pg.GroupRequest(remove=group)])
        elif choice < 0.7:
            self.numbers += 1
            request = detached(self.numbers, name, max_restarts=dice.choice([0, 1, -1]))
            self.rig.do(core.actor_desk.create_detached, request)
        elif choice < 0.8 and core.detached:
            holder = core.actors.by_name("", name)
            if holder is not None:
                killed = holder.actor_id
                core.detached.kill(killed, no_restart=True, graceful=False, at=self.rig.at())
                self.rig.drain()
        elif choice < 0.9:
            agent = dice.choice(self.agents)
            if agent.actors:
                agent.end_actor(dice.choice(sorted(agent.actors)))

    def calm(self):
        """No more faults: everything in flight arrives, time passes."""
        for _ in range(400):
            for agent in self.agents:
                self.deliver(agent)
            quiet = not any(
                a.inbox or a.outbox or self.rig.told.get(a.session) for a in self.agents
            )
            if quiet:
                self.rig.advance(500)

    def check(self):
        core = self.rig.core
        held = {(k[0], k[2]): a.node_id for a in self.agents for k in a.bundles}
        assert len(held) == sum(len(agent.bundles) for agent in self.agents), "a bundle held twice"
        wanted = {}
        for record in core.placement.records():
            if record.state == pg.PLACEMENT_GROUP_STATE_REMOVED:
                continue
            for index, node_id in enumerate(record.bundle_nodes):
                if node_id:
                    wanted[record.spec.placement_group_id, index] = node_id
        assert held == wanted
        running = {}
        for agent in self.agents:
            for actor, incarnation in agent.actors.items():
                assert actor not in running, "an actor runs twice"
                running[actor] = (agent.node_id, incarnation)
        alive = {
            record.actor_id: (record.node_id, record.incarnation)
            for record in core.actors.newest_first()
            if record.state == t.ACTOR_STATE_ALIVE
        }
        assert running == alive
        for _, name in core.actors.names(None):
            assert core.actors.by_name("", name).state != t.ACTOR_STATE_DEAD
        states = {r.actor_id: r.state for r in core.actors.newest_first()}
        stored = {
            key: t.ActorRecord.FromString(row).state
            for key, row in self.rig.rows[tables.ACTOR].items()
        }
        assert stored == states
        for agent in self.agents:
            assert agent.free() >= 0


@pytest.mark.parametrize("seed", range(40))
def test_after_any_faults_the_service_and_its_agents_agree(seed):
    world = World(seed)
    for _ in range(120):
        for agent in world.agents:
            world.deliver(agent)
        world.act()
        fault = world.dice.random()
        if fault < 0.03:
            world.crash()
        elif fault < 0.06:
            world.kill_agent()
        elif fault < 0.1:
            world.break_session()
        elif fault < 0.3:
            world.rig.advance(world.dice.randrange(300))
    world.calm()
    world.check()
    assert actor_id(0) not in world.rig.rows[tables.ACTOR]
