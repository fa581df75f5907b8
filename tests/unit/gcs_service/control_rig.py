"""A control core in a test: virtual time, rows, and sessions that note what they are told."""

from __future__ import annotations

import random

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core import effects as fx
from gcs_service.core import tables
from gcs_service.core.cluster_identity import ClusterIdentity
from gcs_service.core.control_core import ControlCore
from gcs_service.core.moment import Moment
from gcs_service.core.tables import Write

CLUSTER = b"c" * 16
DRIVER = b"d" * 16


class Rig:
    """`told[session]` has the items of a session, `rows[table]` what is durable."""

    def __init__(self, rows=None, epoch=1, now_ms=0):
        self.now_ms = now_ms
        self.rows = rows if rows is not None else {name: {} for name in tables.ALL_TABLES}
        self.told = {}
        self.closed = []
        self.others = []
        identity = ClusterIdentity(
            cluster_id=CLUSTER, epoch=epoch, session_name="s", start_wall_ms=0, node_settings={}
        )
        self.core = ControlCore(identity, random.Random(7))
        loaded = {name: sorted(table.items()) for name, table in self.rows.items()}
        self.core.load(loaded, self.at())
        self.drain()

    def at(self):
        return Moment(self.now_ms, 1_700_000_000_000 + self.now_ms)

    def restarted(self):
        """The next life over the same rows."""
        return Rig(self.rows, self.core.identity.epoch + 1, self.now_ms)

    def do(self, method, *args, **kwargs):
        result = method(*args, self.at(), **kwargs)
        self.drain()
        return result

    def drain(self):
        for effect in self.core.take_effects(self.at()):
            if isinstance(effect, Write):
                table = self.rows[effect.table]
                if effect.value is None:
                    table.pop(effect.key, None)
                else:
                    table[effect.key] = effect.value
            elif isinstance(effect, fx.Tell):
                self.told.setdefault(effect.session, []).append(effect.item)
            elif isinstance(effect, fx.CloseSession | fx.LeaveSession):
                self.closed.append(effect.session)
            else:
                self.others.append(effect)

    def advance(self, ms):
        """Time passes; deadlines are met on the way, silences confirmed at once."""
        end = self.now_ms + ms
        while True:
            deadline = self.core.next_deadline_ms()
            if deadline is None or deadline > end:
                break
            self.now_ms = max(self.now_ms, deadline)
            self.do(self.core.tick)
            for effect in self.take(fx.ConfirmSilence):
                evidence = fx.SilenceEvidence(loop_lag_ms=0, port_answers=False)
                self.do(self.core.silence_confirmed, effect.node_id, evidence)
        self.now_ms = end

    def take(self, kind):
        """Effects of one kind seen since the last call."""
        found = [effect for effect in self.others if isinstance(effect, kind)]
        self.others = [effect for effect in self.others if not isinstance(effect, kind)]
        return found

    def items(self, session, kind):
        """Items of one kind that a node's session was told."""
        told = self.told.get(session, [])
        return [getattr(item, kind) for item in told if item.WhichOneof("item") == kind]

    def join(self, node_id, session, cpus=4, *, cluster=b"", labels=None, **fields):
        total = t.ResourceSet(amounts={"CPU": cpus * 10_000})
        snapshot = ns.ResourceSnapshot(version=1, total=total, available=total, labels=labels or {})
        register = ns.RegisterNode(
            cluster_id=cluster,
            incarnation=1,
            address=fields.pop("address", f"host-{node_id[:1].hex()}:1"),
            total=total,
            labels=labels or {},
            snapshot=snapshot,
            **fields,
        )
        item = ns.AgentItem(node_id=node_id, register=register)
        self.do(self.core.node_frame, session, [item])

    def say(self, node_id, session, **item):
        self.do(self.core.node_frame, session, [ns.AgentItem(node_id=node_id, **item)])

    def answer_bundles(self, node_id, session, *, ok=True):
        """The agent answers every bundle command it has not answered yet."""
        told = self.told.get(session, [])
        commands = [item.bundle for item in told if item.WhichOneof("item") == "bundle"]
        self.told[session] = [item for item in told if item.WhichOneof("item") != "bundle"]
        for command in commands:
            answer = ns.BundleAnswer(
                action=command.action,
                placement_group_id=command.placement_group_id,
                attempt=command.attempt,
                ok=ok,
                indexes=[bundle.index for bundle in command.bundles],
            )
            self.say(node_id, session, bundle_answer=answer)
        return commands

    def node(self, node_id):
        return self.core.membership.nodes.get(node_id).record

    def actor(self, actor_id):
        return self.core.actors.get(actor_id)


def actor_id(number):
    return DRIVER + number.to_bytes(8, "big")


def record(number, name="", **fields):
    fields = {"version": 1, "state": t.ACTOR_STATE_PENDING_CREATION, "owner_id": DRIVER} | fields
    return t.ActorRecord(actor_id=actor_id(number), name=name, **fields)


def detached(number, name="", *, cpus=1, max_restarts=0, group=b"", **fields):
    resources = t.ResourceSet(amounts={"CPU": cpus * 10_000})
    start = ns.StartDetachedActor(
        actor_id=actor_id(number), resources=resources, placement_group_id=group, bundle_index=-1
    )
    return g.CreateDetachedActorRequest(
        actor=t.ActorRecord(actor_id=actor_id(number), owner_id=DRIVER, name=name),
        start=start,
        max_restarts=max_restarts,
        **fields,
    )


def group_spec(number, bundles=1, **fields):
    bundle = pg.BundleSpec(resources=t.ResourceSet(amounts={"CPU": 10_000}))
    return pg.PlacementGroupSpec(
        placement_group_id=actor_id(number),
        bundles=[bundle] * bundles,
        strategy=fields.pop("strategy", pg.PLACEMENT_STRATEGY_PACK),
        creator_owner_id=DRIVER,
        **fields,
    )
