"""What choosing nodes costs: the placement core alone, no processes, no storage.

    python -m benchmarks.pg_choose --nodes 10000 --groups 555 --bundles 18

JSON lines on stdout, everything else on stderr. `choose_total_s`: choosing and reserving for all
groups, one rack each, one bundle a node. `choose_fragmented_total_s`: the same with a different
free vector on every node. `create_total_s`: the whole `create` call, with commands and records.
`choose_one_freed_ms`: a full cluster, 2,000 waiting groups in 41 shapes, one node's room comes
back: until the core has decided.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

from benchmarks.report import Row, emit, note
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg
from cluster_api.v1 import types_pb2 as t
from gcs_service.core.placement.choose import choose
from gcs_service.core.placement.effects import SendBundle
from gcs_service.core.placement.placement_core import PlacementCore
from gcs_service.core.placement.plan import Plan, Wanted
from gcs_service.core.placement.request import parse_request
from gcs_service.core.placement.state import PlacementState

UNIT = 10_000
WAITING_GROUPS = 2_000
WAITING_SHAPES = 41


def snapshot(version: int, free: dict[str, int], total: dict[str, int]) -> ns.ResourceSnapshot:
    return ns.ResourceSnapshot(
        version=version,
        total=t.ResourceSet(amounts=total),
        available=t.ResourceSet(amounts=free),
    )


def spec(number: int, bundles: list[dict[str, int]], *, racked: bool) -> pg.PlacementGroupSpec:
    level = pg.TopologyLevel(label="rack", strategy=pg.PLACEMENT_STRATEGY_STRICT_PACK)
    return pg.PlacementGroupSpec(
        placement_group_id=number.to_bytes(24, "big"),
        bundles=[pg.BundleSpec(resources=t.ResourceSet(amounts=one)) for one in bundles],
        strategy=pg.PLACEMENT_STRATEGY_STRICT_SPREAD,
        topology=[level] if racked else [],
    )


def node_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def fill(core: PlacementCore, nodes: int, rack: int, *, fragmented: bool) -> None:
    dice = random.Random(1)  # noqa: S311 -- a fixed workload
    total = {"CPU": 64 * UNIT, "GPU": 8 * UNIT, "memory": 512 * UNIT}
    for number in range(nodes):
        free = dict(total)
        if fragmented:
            free["memory"] = dice.randrange(256 * UNIT, 512 * UNIT)
        labels = {"rack": f"r{number // rack}"}
        core.node_joined(node_id(number), f"h:{number}", labels, snapshot(1, free, total), [], 0)


def state_of(core: PlacementCore) -> PlacementState:
    """The benchmark looks inside: it times parts that have no door of their own."""
    return vars(core)["_state"]


def choose_total(args: argparse.Namespace, *, fragmented: bool) -> float:
    core = PlacementCore(random.Random(0))  # noqa: S311
    fill(core, args.nodes, args.bundles, fragmented=fragmented)
    state = state_of(core)
    bundle = {"CPU": 60 * UNIT, "GPU": 8 * UNIT, "memory": 200 * UNIT}
    one = spec(1, [bundle] * args.bundles, racked=True)
    began = time.perf_counter()
    for _ in range(args.groups):
        request = parse_request(one, state.table)
        plan = choose(state.index, state.table, Wanted(request, tuple(range(args.bundles))))
        assert isinstance(plan, Plan), plan
        for node, shape in zip(plan.nodes, request.shapes, strict=True):
            node.reserve(shape.amounts)
            state.room_taken(node)
    return time.perf_counter() - began


def create_total(args: argparse.Namespace) -> tuple[float, int]:
    core = PlacementCore(random.Random(0))  # noqa: S311
    fill(core, args.nodes, args.bundles, fragmented=False)
    bundle = {"CPU": 60 * UNIT, "GPU": 8 * UNIT}
    specs = [spec(n, [bundle] * args.bundles, racked=True) for n in range(args.groups)]
    commands = 0
    began = time.perf_counter()
    for one in specs:
        commands += sum(type(effect) is SendBundle for effect in core.create(one, 1, 1))
    return time.perf_counter() - began, commands


def one_freed(args: argparse.Namespace, rounds: int = 40) -> list[float]:
    core = PlacementCore(random.Random(0))  # noqa: S311
    total = {"CPU": 64 * UNIT, "GPU": 8 * UNIT}
    for number in range(args.nodes):
        labels = {"rack": f"r{number // args.bundles}"}
        empty = snapshot(1, {}, total)
        core.node_joined(node_id(number), f"h:{number}", labels, empty, [], 0)
    for number in range(WAITING_GROUPS):
        shape = {"CPU": (number % WAITING_SHAPES + 20) * UNIT, "GPU": UNIT}
        core.create(spec(number, [shape], racked=False), 1, 1)
    samples: list[float] = []
    for number in range(rounds):
        report = snapshot(2, dict(total), total)
        began = time.perf_counter()
        effects = core.node_snapshot(node_id(number * 7 % args.nodes), report, 2)
        samples.append((time.perf_counter() - began) * 1e3)
        assert any(type(effect) is SendBundle for effect in effects), "nobody got the node"
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(prog="pg_choose", description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--groups", type=int, default=555)
    parser.add_argument("--bundles", type=int, default=18)
    args = parser.parse_args()
    if args.groups * args.bundles > args.nodes:
        parser.error(f"{args.groups} groups of {args.bundles} need more than {args.nodes} nodes")
    size: dict[str, object] = {
        "nodes": args.nodes,
        "groups": args.groups,
        "bundles": args.bundles,
    }
    note("choosing for all groups ...")
    emit(Row("choose_total_s", choose_total(args, fragmented=False), "s", size))
    emit(Row("choose_fragmented_total_s", choose_total(args, fragmented=True), "s", size))
    seconds, commands = create_total(args)
    emit(Row("create_total_s", seconds, "s", {**size, "commands": commands}))
    note("one node freed ...")
    samples = one_freed(args)
    waiting: dict[str, object] = {
        "nodes": args.nodes,
        "waiting": WAITING_GROUPS,
        "shapes": WAITING_SHAPES,
    }
    emit(Row("choose_one_freed_ms", statistics.median(samples), "ms", waiting))
    emit(Row("choose_one_freed_max_ms", max(samples), "ms", waiting))


if __name__ == "__main__":
    main()
