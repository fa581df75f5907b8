"""Random histories: the books are right after every event, and everything ends where it began."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from tests.unit.raylet_agent.agent_world import OTHER, OWNER, World, lease_id

AMOUNTS = st.sampled_from(
    [
        {},
        {"CPU": 1},
        {"CPU": 2},
        {"CPU": 0.5},
        {"GPU": 1},
        {"GPU": 0.5},
        {"GPU": 0.3, "CPU": 1},
        {"GPU": 2},
        {"CPU": 9},
    ]
)
OWNERS = st.sampled_from([OWNER, OTHER])
GROUPS = st.sampled_from([b"g" * 24, b"h" * 24])
ATTEMPTS = st.integers(1, 4)
INDEXES = st.lists(st.integers(0, 2), unique=True, max_size=3)


class AgentHistory(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(CPU=4, GPU=2)
        self.world.auto_kill = False
        self.world.auto_register = False
        self.number = 0
        for owner in (OWNER, OTHER):
            self.world.open(owner)

    @rule(amounts=AMOUNTS, owner=OWNERS, actor=st.booleans(), reject=st.booleans())
    def ask(self, amounts, owner, actor, reject):
        self.number += 1
        self.world.ask(self.number, owner, resources=amounts, actor=actor, grant_or_reject=reject)

    @rule(amounts=AMOUNTS, group=GROUPS, index=st.integers(-1, 2))
    def ask_in_group(self, amounts, group, index):
        self.number += 1
        self.world.ask(self.number, group=group, index=index, resources=amounts)

    @rule(data=st.data(), kill=st.booleans(), graceful=st.booleans())
    @precondition(lambda self: self.number)
    def give_back(self, data, kill, graceful):
        number = data.draw(st.integers(1, self.number))
        for owner in (OWNER, OTHER):
            self.world.give_back(
                lease_id(number, owner), owner=owner, kill_worker=kill, graceful=graceful
            )

    @rule(data=st.data())
    @precondition(lambda self: self.number)
    def cancel(self, data):
        self.world.cancel(lease_id(data.draw(st.integers(1, self.number))))

    @rule(
        action=st.sampled_from([1, 2, 3, 4, 5]),
        group=GROUPS,
        attempt=ATTEMPTS,
        indexes=INDEXES,
        amounts=AMOUNTS,
    )
    def bundle(self, action, group, attempt, indexes, amounts):
        bundles = {f"b{index}": amounts for index in indexes}
        self.world.bundle(n.BundleAction.ValueType(action), attempt, group, **bundles)

    @rule(data=st.data())
    def register(self, data):
        starting = [w.worker_id for w in self.world.core.pool.rows() if not w.registered]
        if starting:
            self.world.register(data.draw(st.sampled_from(starting)))
            self.world.run()

    @rule(data=st.data(), status=st.sampled_from([0, 1, -9]))
    def process_ends(self, data, status):
        workers = [w.worker_id for w in self.world.core.pool.rows()]
        if workers:
            self.world.ended(data.draw(st.sampled_from(workers)), status)

    @rule(data=st.data(), blocked=st.booleans())
    def block(self, data, blocked):
        leases = [x for x in self.world.core.leasing.leases.values() if x.worker_id]
        if not leases:
            return
        lease = data.draw(st.sampled_from(leases))
        if blocked:
            item = a.WorkerItem(blocked=a.WorkerBlocked(lease_id=lease.lease_id))
        else:
            item = a.WorkerItem(unblocked=a.WorkerUnblocked(lease_id=lease.lease_id))
        self.world.core.worker_items(lease.worker_id, [item], self.world.now_ms)
        self.world.run()

    @rule(owner=OWNERS)
    def session_breaks(self, owner):
        self.world.core.session_lost(owner, self.world.now_ms)
        self.world.run()

    @rule(owner=OWNERS)
    def session_opens(self, owner):
        self.world.open(owner)

    @rule(milliseconds=st.sampled_from([10, 500, 3_000, 40_000]))
    def time_passes(self, milliseconds):
        self.world.advance(milliseconds)

    @invariant()
    def books_are_right(self):
        self.world.check()

    def teardown(self):
        """Everybody leaves: all is free again."""
        world = self.world
        world.auto_kill = True
        world.gcs(owners_died=n.OwnersDied(owner_ids=[OWNER, OTHER]))
        for worker in world.core.pool.rows():
            world.ended(worker.worker_id)
        for group in (b"g" * 24, b"h" * 24):
            world.bundle(n.BUNDLE_ACTION_RETURN, 0, group)
        world.check()
        pool = world.core.ledger.node
        assert pool.available == pool.total
        assert pool.device_free == pool.device_total
        assert world.core.leasing.leases == {}
        assert len(world.core.leasing.queue) == 0


AgentHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestAgentHistory = AgentHistory.TestCase
