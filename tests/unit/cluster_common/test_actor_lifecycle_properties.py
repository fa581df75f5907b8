"""Whatever happens in whatever order: the rules of an actor's life hold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from cluster_api.v1 import types_pb2 as t
from cluster_common.actor_lifecycle import (
    NO_RESTART_CAUSES,
    RESTARTS_UNLIMITED,
    ActorLifecycle,
    CancelLease,
    Placement,
    Publish,
    PushCreation,
    RequestLease,
    StopWorker,
)

ID = b"actor"
NEXT_STATES = {
    t.ACTOR_STATE_DEPENDENCIES_UNREADY: {t.ACTOR_STATE_PENDING_CREATION, t.ACTOR_STATE_DEAD},
    t.ACTOR_STATE_PENDING_CREATION: {
        t.ACTOR_STATE_ALIVE,
        t.ACTOR_STATE_RESTARTING,
        t.ACTOR_STATE_DEAD,
    },
    t.ACTOR_STATE_ALIVE: {t.ACTOR_STATE_RESTARTING, t.ACTOR_STATE_DEAD},
    t.ACTOR_STATE_RESTARTING: {t.ACTOR_STATE_ALIVE, t.ACTOR_STATE_DEAD},
    t.ACTOR_STATE_DEAD: set(),
}
CAUSES = [cause for cause in t.ActorDeathCause.values() if cause]
EVENTS = st.tuples(
    st.sampled_from(
        ("ready", "granted", "created", "raised", "ended", "restart", "end", "granted", "created")
    ),
    st.integers(-1, 1),
    st.sampled_from(CAUSES),
)


def place(number):
    return Placement(b"node%d" % number, b"worker%d" % number, f"h:{number}", number)


class World:
    """The machine, and what its effects did: leases asked for, workers held."""

    def __init__(self, max_restarts):
        self.actor = ActorLifecycle(ID, max_restarts)
        self.asked = set()
        self.held = {}
        self.grants = 0

    def feed(self, name, offset, cause):
        actor = self.actor
        incarnation = actor.incarnation + offset
        if name == "ready":
            return actor.dependencies_ready()
        if name == "granted":
            self.grants += 1
            placement = place(self.grants)
            self.held[placement.worker_id] = placement
            self.asked.discard(incarnation)
            return actor.lease_granted(incarnation, placement)
        if name == "created":
            return actor.creation_succeeded(incarnation)
        if name == "raised":
            return actor.creation_failed(incarnation, "raised", b"e", 7)
        if name == "ended":
            if incarnation == actor.incarnation:
                self.asked.discard(incarnation)  # without a worker it is the lease that ended
                if actor.placement is not None and not actor.is_dead:
                    self.held.pop(actor.placement.worker_id, None)
            return actor.worker_ended(incarnation, cause, "ended", 7)
        if name == "restart":
            return actor.restart_requested("kill", 7)
        return actor.end(cause, "end", 7)

    def carry_out(self, effects):
        for effect in effects:
            match effect:
                case RequestLease(_, incarnation):
                    assert not self.asked, "a lease is on its way already"
                    assert self.actor.placement is None, "a worker is held already"
                    self.asked.add(incarnation)
                case CancelLease(_, incarnation):
                    self.asked.discard(incarnation)
                case StopWorker(_, _, placement, _, _):
                    assert self.held.pop(placement.worker_id, None) is not None, "stopped twice"
                case PushCreation(_, incarnation, placement):
                    assert incarnation == self.actor.incarnation
                    assert placement.worker_id in self.held
                case Publish():
                    pass


@given(st.sampled_from((RESTARTS_UNLIMITED, 0, 1, 3)), st.lists(EVENTS, max_size=40))
@settings(max_examples=300, deadline=None)
def test_the_rules_of_an_actors_life(max_restarts, events):
    world = World(max_restarts)
    actor = world.actor
    for name, offset, cause in events:
        before = (actor.state, actor.incarnation, actor.version, actor.restarts)
        death = actor.death
        effects = world.feed(name, offset, cause)
        state, incarnation, version, restarts = before
        world.carry_out(effects)
        # Dead is final: nothing changes but that late grants go back.
        if state == t.ACTOR_STATE_DEAD:
            assert (actor.state, actor.incarnation, actor.version, actor.restarts) == before
            assert actor.death == death
            assert all(isinstance(effect, StopWorker) for effect in effects)
        # Moves are those of the table; every public move is published, with a new version.
        if actor.state != state:
            assert actor.state in NEXT_STATES[state]
            assert Publish(ID) in effects
            assert actor.version > version
        elif actor.restarts > restarts:  # asked for while the next start was on its way
            assert Publish(ID) in effects
            assert actor.version > version
        elif state != t.ACTOR_STATE_RESTARTING:
            assert Publish(ID) not in effects
        # Incarnations only grow, one at a time, each after a request for a lease.
        assert incarnation <= actor.incarnation <= incarnation + 1
        if actor.incarnation > incarnation:
            assert RequestLease(ID, actor.incarnation) in effects
        # The budget: restarts that were not preemptions never exceed it.
        if max_restarts != RESTARTS_UNLIMITED:
            assert actor.restarts - actor.preempted_restarts <= max_restarts
        assert actor.restarts - restarts in (0, 1)
        # One worker at most; the one it has is the one that is held.
        assert set(world.held) == ({actor.placement.worker_id} if held(actor) else set())
        if actor.state == t.ACTOR_STATE_ALIVE:
            assert actor.placement is not None


def held(actor):
    return actor.placement is not None and not actor.is_dead


@given(st.integers(1, 5), st.integers(0, 6))
@settings(max_examples=50, deadline=None)
def test_preemptions_do_not_use_the_budget(max_restarts, preemptions):
    world = World(max_restarts)
    world.carry_out(world.feed("ready", 0, None))

    def live_then_lose(cause):
        world.carry_out(world.feed("granted", 0, None))
        world.carry_out(world.feed("created", 0, None))
        world.carry_out(world.feed("ended", 0, cause))

    for _ in range(preemptions):
        live_then_lose(t.ACTOR_DEATH_CAUSE_PREEMPTED)
    for _ in range(max_restarts):
        live_then_lose(t.ACTOR_DEATH_CAUSE_WORKER_DIED)
    assert world.actor.state == t.ACTOR_STATE_RESTARTING
    assert world.actor.restarts == preemptions + max_restarts
    live_then_lose(t.ACTOR_DEATH_CAUSE_NODE_DIED)
    assert world.actor.is_dead


def test_wanted_ends_are_those_that_never_restart():
    for cause in CAUSES:
        actor = ActorLifecycle(ID, RESTARTS_UNLIMITED)
        actor.dependencies_ready()
        actor.lease_granted(1, place(1))
        actor.creation_succeeded(1)
        actor.worker_ended(1, cause, "ended", 7)
        assert actor.is_dead == (cause in NO_RESTART_CAUSES)
