"""The agent's core with virtual time: forks and registers workers at once unless told not to."""

from __future__ import annotations

from itertools import count
from random import Random

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common.resources import vector
from raylet_agent.core import effects as e
from raylet_agent.core.agent import AgentCore
from raylet_agent.core.facts import NodeFacts

HERE = b"n" * 16
OWNER = b"o" * 16
OTHER = b"p" * 16
JOB = b"\0\0\0\1"
GROUP = b"g" * 24


class World:
    """One agent. `owner_items` and `gcs_items` are what was sent since last asked."""

    def __init__(self, *, scheduler=False, ahead=0, here=HERE, address="here:1", **amounts):
        self.now_ms = 1_000
        self.auto_register = True
        self.auto_kill = True
        labels = {"rack": "r1"}
        facts = NodeFacts(here, address, "node", "host", labels, False, scheduler, "gcs:1", 7, 1)
        total = vector(amounts or {"CPU": 4})
        numbers = count(1)
        new_id = lambda: b"w" * 8 + next(numbers).to_bytes(8, "big")
        self.core = AgentCore(facts, total, new_id, Random(1), ahead, self.now_ms)
        self.owner_items: list[tuple[bytes, a.LeaseItem]] = []
        self.gcs_items: list[n.AgentItem] = []
        self.worker_commands: list[tuple[bytes, a.WorkerCommand]] = []
        self.spawned: list[e.SpawnWorker] = []
        self.ordered: list[e.PrepareEnvironment] = []
        self.released: list[str] = []
        self.jobs_ended: list[bytes] = []
        self.killed: list[bytes] = []
        self.probed: list[bytes] = []
        self.ends: list[e.EndAgent] = []
        self.snapshots = 0
        self.core.welcomed(n.Welcome(cluster_id=b"c" * 16, epoch=1), self.now_ms)

    # ---- events

    def open(self, owner=OWNER, *, held=(), home=True, driver=True):
        opening = a.OpenOwner(
            owner_id=owner,
            job_id=JOB,
            owner_address="owner:1",
            is_home=home,
            is_driver=driver,
            held_lease_ids=list(held),
        )
        welcome = self.core.owner_opened(opening, self.now_ms)
        self.run()
        return welcome

    def ask(self, number, owner=OWNER, **options):
        self.send(owner, a.OwnerItem(request=request(number, owner, **options)))
        return lease_id(number, owner)

    def give_back(self, *lease_ids, owner=OWNER, **options):
        item = a.LeaseReturn(lease_ids=list(lease_ids), **options)
        self.send(owner, a.OwnerItem(return_lease=item))

    def cancel(self, *lease_ids, owner=OWNER):
        self.send(owner, a.OwnerItem(cancel=a.LeaseCancel(lease_ids=list(lease_ids))))

    def send(self, owner, *items):
        self.core.owner_items(owner, list(items), self.now_ms)
        self.run()

    def gcs(self, **item):
        self.core.gcs_item(n.GcsItem(node_id=HERE, **item), self.now_ms)
        self.run()

    def bundle(self, action, attempt=1, group=GROUP, seq=0, reason="", **bundles):
        command = n.BundleCommand(
            action=action,
            placement_group_id=group,
            attempt=attempt,
            reservation_seq=seq,
            reason=reason,
            bundles=[
                n.Bundle(index=int(index[1:]), resources=t.ResourceSet(amounts=vector(amounts)))
                for index, amounts in bundles.items()
            ],
        )
        self.gcs(bundle=command)
        answers = self.answers()
        return answers[-1] if answers else None

    def ended(self, worker_id, status=-9, tail=""):
        self.core.worker_ended(worker_id, status, tail, self.now_ms)
        self.run()

    def advance(self, milliseconds):
        """Time passes; deadlines come in order."""
        end = self.now_ms + milliseconds
        while (due := self.core.next_deadline_ms()) is not None and due <= end:
            self.now_ms = max(self.now_ms, due)
            self.core.tick(self.now_ms)
            self.run()
        self.now_ms = end

    def run(self):
        """Carries effects out."""
        while effects := self.core.drain():
            for effect in effects:
                self._carry_out(effect)

    def _carry_out(self, effect):
        if isinstance(effect, e.ReportSnapshot):
            self.snapshots += 1
        elif isinstance(effect, e.SendToOwner):
            self.owner_items.append((effect.owner_id, effect.item))
        elif isinstance(effect, e.SendToGcs):
            self.gcs_items.append(effect.item)
        elif isinstance(effect, e.SendToWorker):
            self.worker_commands.append((effect.worker_id, effect.command))
        elif isinstance(effect, e.ProbeOwner):
            self.probed.append(effect.owner_id)
        elif isinstance(effect, e.EndAgent):
            self.ends.append(effect)
        elif isinstance(effect, e.PrepareEnvironment):
            self.ordered.append(effect)
        elif isinstance(effect, e.ReleaseEnvironment):
            self.released.append(effect.environment)
        elif isinstance(effect, e.JobEnded):
            self.jobs_ended.append(effect.job_id)
        elif isinstance(effect, e.SpawnWorker):
            self.spawned.append(effect)
            self.core.worker_spawned(effect.worker_id, 100 + len(self.spawned), self.now_ms)
            if self.auto_register:
                self.register(effect.worker_id)
        elif isinstance(effect, e.KillWorker):
            self.killed.append(effect.worker_id)
            if self.auto_kill:
                self.core.worker_ended(effect.worker_id, -9, "", self.now_ms)

    def register(self, worker_id):
        registration = a.RegisterWorker(worker_id=worker_id, pid=1, address="w:1")
        return self.core.worker_registered(registration, self.now_ms)

    # ---- what came out

    def heard(self, owner=OWNER):
        """Items sent to an owner since last asked, as (kind, lease id)."""
        kinds = []
        rest = []
        for to, item in self.owner_items:
            if to != owner:
                rest.append((to, item))
                continue
            kind = item.WhichOneof("item")
            body = getattr(item, kind)
            kinds.append((kind, getattr(body, "lease_id", b"")))
        self.owner_items = rest
        return [pair for pair in kinds if pair[0] != "give_back"]

    def items(self, kind, owner=OWNER):
        """Items of one kind sent to an owner; they count as heard."""
        mine = [i for o, i in self.owner_items if o == owner and i.WhichOneof("item") == kind]
        self.owner_items = [(o, i) for o, i in self.owner_items if i not in mine]
        return [getattr(item, kind) for item in mine]

    def answers(self):
        """Bundle answers since last asked."""
        found = [i.bundle_answer for i in self.gcs_items if i.HasField("bundle_answer")]
        self.gcs_items = [i for i in self.gcs_items if not i.HasField("bundle_answer")]
        return found

    def events(self):
        """Detached actor events since last asked."""
        found = [i.detached_actor for i in self.gcs_items if i.HasField("detached_actor")]
        self.gcs_items = [i for i in self.gcs_items if not i.HasField("detached_actor")]
        return found

    def free(self, name="CPU"):
        """Available amount of a resource, in user units."""
        return self.core.ledger.node.available.get(name, 0) / 10_000

    def check(self):
        """The whole state is consistent."""
        assert self.core.ledger.check() == []
        for worker in self.core.pool.rows():
            if worker.lease_id:
                assert worker.lease_id in self.core.leasing.leases


def lease_id(number, owner=OWNER):
    return owner + number.to_bytes(8, "big")


def request(
    number,
    owner=OWNER,
    *,
    place=None,
    selector=None,
    actor=False,
    group=b"",
    index=-1,
    rejected_by=(),
    fallback=(),
    resources=None,
    **fields,
):
    item = a.LeaseRequest(
        lease_id=lease_id(number, owner),
        job_id=JOB,
        placement_group_id=group,
        bundle_index=index,
        rejected_by=list(rejected_by),
        **fields,
    )
    item.resources.amounts.update(vector({"CPU": 1} if resources is None else resources))
    if place is not None:
        item.placement_resources.amounts.update(vector(place))
    if selector:
        item.selector.terms.update(selector)
    for terms in fallback:
        item.fallback.add().terms.update(terms)
    if actor:
        item.actor_id = lease_id(number, owner)
    return item


def view(node, *, version=1, labels=None, free=None, total=None, address=None, alive=True, seen=0):
    """A node view for a scheduler; `free` defaults to `total`; `seen`: sendings that came."""
    total = total or {"CPU": 4}
    return n.NodeView(
        node_id=node,
        address=address or f"{node[:1].decode()}:1",
        alive=alive,
        snapshot=n.ResourceSnapshot(
            version=version,
            total=t.ResourceSet(amounts=vector(total)),
            available=t.ResourceSet(amounts=vector(total if free is None else free)),
            labels=labels or {},
            sendings_seen=[n.SendingsSeen(scheduler_id=HERE, all_up_to=seen)] if seen else [],
        ),
    )
