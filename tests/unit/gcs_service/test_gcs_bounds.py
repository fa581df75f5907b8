"""Nothing in the core grows with what happened once, and every table says how large it may be."""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core.bounds_report import rows_of
from gcs_service.core.kv_table import KvTable
from gcs_service.core.liveness import Liveness
from gcs_service.core.moment import Moment
from gcs_service.core.placement.limits import TIMERS_KEPT
from gcs_service.core.placement.timers import TimerKind, Timers
from tests.unit.gcs_service.control_rig import Rig, record

NODE = b"n" * 16


def test_deadlines_that_nobody_waits_for_are_taken_out() -> None:
    living = {b"lives"}
    timers = Timers(living.__contains__)
    for number in range(3 * TIMERS_KEPT):
        timers.arm(1_000 + number, TimerKind.ATTEMPT, b"gone" + number.to_bytes(4, "big"))
        timers.arm(2_000 + number, TimerKind.RETRY, b"lives")
    assert len(timers) <= TIMERS_KEPT + 1
    last = 2_000 + 3 * TIMERS_KEPT - 1
    found = []
    while (due := timers.pop_due(10**9)) is not None:
        found.append(due)
    assert (last, TimerKind.RETRY, b"lives") in found


def test_a_node_that_reconnects_all_the_time_leaves_few_deadlines() -> None:
    liveness = Liveness()
    for turn in range(1_000):
        liveness.broken(NODE, turn)
        liveness.connected(NODE, turn)
    assert liveness.deadlines_count <= 16 * limits.DEADLINES_SHARE + 1
    # The one that counts is among them, and nothing earlier.
    due_ms = liveness.next_deadline_ms()
    assert due_ms is not None
    assert due_ms >= 999 + limits.PING_INTERVAL_MS


def test_a_key_that_is_put_again_and_again_leaves_few_moments() -> None:
    table = KvTable()
    for turn in range(2_000):
        at = Moment(turn, turn)
        table.put("", b"key", b"value", if_absent=False, if_revision=None, ttl_ms=10_000_000, at=at)
    expiry = {name: rows for name, rows, _ in table.bounds()}["kv_expiry"]
    assert expiry <= 64 * limits.DEADLINES_SHARE + 1
    assert table.get("", b"key", Moment(0, 11_000_000)) is None


def test_every_table_of_the_core_has_a_cap_and_keeps_it() -> None:
    rig = Rig()
    rig.join(NODE, 1)
    rig.do(rig.core.actor_desk.register_named, record(1, "a", state=t.ACTOR_STATE_ALIVE))
    bundle = pg.BundleSpec(resources=t.ResourceSet(amounts={"CPU": 10_000}))
    spec = pg.PlacementGroupSpec(placement_group_id=b"g" * 24, bundles=[bundle])
    rig.do(rig.core.group_frame, 5, [pg.GroupRequest(create=spec)])
    rows = rows_of(rig.core)
    names = [name for name, _, _ in rows]
    assert len(names) == len(set(names))
    assert {"node", "node_dead", "job", "actor", "placement_group", "owner", "drain"} <= set(names)
    for name, count, most in rows:
        assert 0 <= count <= most, name
    assert {name: count for name, count, _ in rows}["actor"] == 1
