"""Agents' cores, an owner and the GCS's demand table, between which everything takes its own time.

Each stream delivers in order; which stream moves next is the test's choice.
"""

from __future__ import annotations

from collections import deque
from itertools import count

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import vector
from driver_client.core.call import CallTemplate
from driver_client.core.task_pool import TaskPool
from driver_client.objects.entry import Entry
from gcs_service.core.demand_facts import DemandUpdate, NodeFact
from gcs_service.core.demand_table import DemandTable
from raylet_agent import limits
from raylet_agent.core import effects as e
from tests.unit.raylet_agent.agent_world import JOB, OTHER, OWNER, World, lease_id

HEAD, A, B = b"h" * 16, b"a" * 16, b"b" * 16
WANTED = "trainer"
NEEDED = vector({WANTED: 1, "CPU": 1})


class Place(World):
    """An agent whose messages wait until the test moves them."""

    def __init__(self, here, *, scheduler=False, **amounts):
        self.here = here
        self.dirty = False
        self.to_gcs = deque()
        self.to_owner = deque()
        self.asked = deque()
        super().__init__(scheduler=scheduler, here=here, address=f"{here.hex()}:1", **amounts)

    def _carry_out(self, effect):
        if isinstance(effect, (e.ReportSnapshot, e.ReportDemand)):
            self.dirty = True
        elif isinstance(effect, e.SendToOwner):
            if effect.owner_id == OWNER:
                self.to_owner.append(effect.item)
        else:
            super()._carry_out(effect)

    def write(self):
        """As the shell: one frame, built when it leaves."""
        self.dirty = False
        snapshots = self.core.snapshots
        snapshots.now_ms = self.now_ms
        self.to_gcs.append((snapshots.build(), snapshots.demand()))

    def rival_comes(self):
        """Somebody at home here takes a CPU that the scheduler thinks is free."""
        self.open(OTHER)
        self.ask(1, OTHER, resources={"CPU": 1})

    def rival_goes(self):
        self.give_back(lease_id(1, OTHER), owner=OTHER)


class DemandWorld:
    """A head that schedules, and nodes with room for so many of what is wanted.

    `later` holds what may still happen at some time: (call, place). What `slow` has to tell the GCS
    moves only when nothing else does.
    """

    def __init__(self, *, takers, head_room=0):
        self.head = Place(HEAD, scheduler=True, CPU=max(1, head_room), trainer=head_room)
        self.places = [self.head]
        self.places += [Place(node, CPU=max(1, room), trainer=room) for node, room in takers]
        self.by_address = {place.core.facts.address: place for place in self.places}
        self.table = DemandTable()
        self.views = deque()
        self.requests = {}
        self.asked = 0
        self.later = deque()
        self.slow = None
        self.numbers = count(1)
        self.on_grant = lambda _lease_id: None
        for place in self.places:
            place.open(OWNER, home=place is self.head)
            place.to_owner.clear()

    # ---- the owner

    def ask(self, **fields):
        """A new request, on its way to the head."""
        request = a.LeaseRequest(lease_id=lease_id(next(self.numbers)), job_id=JOB, **fields)
        request.resources.amounts.update(NEEDED)
        self.requests[request.lease_id] = request
        self.asked += 1
        self.send(self.head, request=request)
        return request

    def send(self, place, **item):
        sent = a.OwnerItem()
        sent.CopyFrom(a.OwnerItem(**item))
        place.asked.append(sent)

    def hear(self, place):
        """The oldest thing an agent told the owner."""
        item = place.to_owner.popleft()
        if item.HasField("redirect"):
            request = self.requests[item.redirect.lease_id]
            request.grant_or_reject = True
            request.ClearField("backlog")
            if item.redirect.HasField("counted"):
                request.counted.CopyFrom(item.redirect.counted)
            self.send(self.by_address[item.redirect.address], request=request)
        elif item.HasField("reject"):
            request = self.requests[item.reject.lease_id]
            request.grant_or_reject = False
            request.ClearField("backlog")
            request.rejected_by.append(item.reject.node_id)
            self.send(self.head, request=request)
        elif item.HasField("grant"):
            del self.requests[item.grant.lease_id]
            self.on_grant(item.grant.lease_id)

    # ---- what can happen next

    def moves(self):
        """Everything that may happen now, in a fixed order."""
        found = []
        for place in self.places:
            if place.asked:
                found.append((self._take_asked, place))
            if place.to_owner:
                found.append((self.hear, place))
            if place.dirty:
                found.append((Place.write, place))
            if place.to_gcs:
                found.append((self._report, place))
        if self.views:
            found.append((self._view, self.head))
        if self.later:
            found.append((self.come, self.head))
        return found

    def run(self, choose=lambda _: 0, check=lambda: None):
        """Until nothing is left to happen; `choose` picks one of so many moves."""
        for _ in range(2_000):
            moves = self.moves()
            if not moves:
                # Rejections and deductions end after a while; then the same nodes are asked again.
                for place in self.places:
                    place.advance(limits.DEDUCTION_MS + 1)
                moves = self.moves()
            if not moves:
                return
            reports = (Place.write, self._report)
            quick = [one for one in moves if one[1] is not self.slow or one[0] not in reports]
            move, place = (quick or moves)[choose(len(quick or moves))]
            move(place)
            check()
        raise AssertionError("it does not come to rest")

    def _take_asked(self, place):
        place.send(OWNER, place.asked.popleft())

    def _report(self, place):
        snapshot, report = place.to_gcs.popleft()
        facts = place.core.facts
        record = t.NodeRecord(node_id=place.here, address=facts.address, state=t.NODE_STATE_ALIVE)
        fact = NodeFact(record, snapshot, dict(snapshot.available.amounts), 1)
        self.table.apply(DemandUpdate({place.here: fact}, [(place.here, report)], {}, None))
        if place is not self.head:
            self.views.append(
                n.NodeView(node_id=place.here, address=facts.address, snapshot=snapshot, alive=True)
            )

    def come(self, _head):
        call, place = self.later.popleft()
        call(place)

    def _view(self, head):
        head.gcs(view=self.views.popleft())

    # ---- what an answer of the GCS says

    def pending(self):
        rows = self.table.entries()
        return sum(row.count for row in rows if WANTED in row.resources.amounts)

    def used(self):
        return (
            sum(
                snapshot.total.amounts[WANTED] - snapshot.available.amounts[WANTED]
                for snapshot in (row.fact.snapshot for row in self.table.nodes.values())
            )
            // 10_000
        )


class Tasks:
    """Tasks of one kind in the owner's pool: long ones, of which none ends."""

    KEY = 7

    def __init__(self, world, how_many):
        self.world = world
        self.pool = TaskPool()
        template = CallTemplate(call_name="long", max_retries=-1)
        self.pool.queue.extend(
            (number, template, b"", Entry(number, OWNER, ""), None) for number in range(how_many)
        )
        world.on_grant = self._granted
        self.ask()

    def ask(self):
        """As the pool's shell: as many requests as are wanted, each with what is behind it."""
        for _ in range(self.pool.requests_wanted()):
            asked = lease_id(next(self.world.numbers))
            self.pool.requested[asked] = None
            backlog = a.Backlog(key=self.KEY, count=self.pool.backlog())
            request = a.LeaseRequest(lease_id=asked, job_id=JOB, backlog=backlog)
            request.resources.amounts.update(NEEDED)
            self.world.requests[asked] = request
            self.world.send(self.world.head, request=request)

    def _granted(self, granted):
        assert self.pool.take_for(self.pool.granted(granted))
        self.ask()
