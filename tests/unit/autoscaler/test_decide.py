"""Bin packing: never above a maximum, never below a minimum, gangs whole, nothing bought twice."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from autoscaler.core.config import NODE_TYPE_LABEL, AutoscalerConfig, NodeType
from autoscaler.core.decide import decide
from autoscaler.core.wants import Gang, Node, Shape, Wants
from cluster_common import labels as label_rules
from cluster_common.resources import vector

IDLE_MS = 60_000


def node_type(name, least=0, most=10, labels=None, **amounts):
    return NodeType(name, vector(amounts), {**(labels or {}), NODE_TYPE_LABEL: name}, least, most)


def config(*types):
    return AutoscalerConfig({"type": "local"}, IDLE_MS, {one.name: one for one in types})


def shape(count=1, selector=None, **amounts):
    return Shape(vector(amounts), label_rules.parse_selector(selector or {}), count)


def node(number, of, *, used=None, idle_ms=None, draining=False, apart=(), starting=False):
    available = dict(of.resources)
    for name, amount in vector(used or {}).items():
        available[name] -= amount
    return Node(
        node_id=b"" if starting else bytes([number]) * 16,
        instance_id=f"i-{number}",
        node_type=of.name,
        total=of.resources,
        available=available,
        labels=of.labels,
        apart=frozenset(apart),
        idle_ms=idle_ms,
        draining=draining,
    )


def gang(count, strategy, apart="", packed=(), values=None, **amounts):
    bundles = (shape(**amounts),) * count
    return Gang(b"g", bundles, strategy, apart, packed, values or {})


TRAINER = node_type("trainer", most=40, CPU=1, trainer=1)
SMALL = node_type("small", most=4, CPU=2)
LARGE = node_type("large", most=4, CPU=16)
GPU = node_type("gpu", most=4, CPU=16, GPU=2)


def test_one_node_is_bought_for_each_request_that_fills_one():
    decision = decide(config(TRAINER), Wants((), (shape(32, CPU=1, trainer=1),)))
    assert decision.launch == {"trainer": 32}


def test_what_was_bought_and_has_not_come_yet_is_not_bought_again():
    starting = tuple(node(n, TRAINER, starting=True) for n in range(30))
    here = (node(30, TRAINER),)
    wants = Wants(starting + here, (shape(32, CPU=1, trainer=1),))
    assert decide(config(TRAINER), wants).launch == {"trainer": 1}


def test_a_maximum_holds_and_what_is_beyond_it_is_named():
    small = node_type("small", most=3, CPU=2)
    decision = decide(config(small), Wants((node(1, small, used={"CPU": 2}),), (shape(9, CPU=1),)))
    assert decision.launch == {"small": 2}
    assert [left.count for left in decision.infeasible_shapes] == [5]


def test_draining_nodes_take_nothing_and_count_until_they_are_gone():
    small = node_type("small", most=2, CPU=2)
    wants = Wants((node(1, small, draining=True),), (shape(4, CPU=1),))
    assert decide(config(small), wants).launch == {"small": 1}


def test_a_minimum_is_bought_without_any_demand_and_never_given_back():
    small = node_type("small", least=2, CPU=2)
    assert decide(config(small), Wants(())).launch == {"small": 2}
    idle = tuple(node(n, small, idle_ms=10 * IDLE_MS) for n in range(3))
    assert len(decide(config(small), Wants(idle)).release) == 1


def test_the_smallest_waste_is_bought_and_no_device_for_nothing():
    chosen = decide(config(SMALL, LARGE, GPU), Wants((), (shape(1, CPU=2),))).launch
    assert chosen == {"small": 1}
    chosen = decide(config(LARGE, GPU), Wants((), (shape(1, CPU=1),))).launch
    assert chosen == {"large": 1}
    chosen = decide(config(LARGE, GPU), Wants((), (shape(1, CPU=1, GPU=1),))).launch
    assert chosen == {"gpu": 1}


def test_labels_of_a_type_decide_whether_it_helps():
    red = node_type("red", labels={"rack": "r1"}, CPU=4)
    blue = node_type("blue", labels={"rack": "r2"}, CPU=4)
    wants = Wants((), (shape(1, {"rack": "r2"}, CPU=1), shape(1, {"rack": "r3"}, CPU=1)))
    decision = decide(config(red, blue), wants)
    assert decision.launch == {"blue": 1}
    assert len(decision.infeasible_shapes) == 1


def test_a_gang_is_bought_whole_or_not_at_all():
    three = node_type("trainer", most=3, CPU=1, trainer=1)
    four = node_type("trainer", most=4, CPU=1, trainer=1)
    wants = Wants((), gangs=(gang(4, "STRICT_SPREAD", trainer=1),))
    refused = decide(config(three), wants)
    assert refused.launch == {}
    assert [one.gang_id for one in refused.infeasible_gangs] == [b"g"]
    assert decide(config(four), wants).launch == {"trainer": 4}


def test_a_gang_that_is_not_bought_leaves_its_room_to_others():
    three = node_type("trainer", most=3, CPU=1, trainer=1)
    wants = Wants((), (shape(2, trainer=1),), (gang(4, "PACK", trainer=1),))
    assert decide(config(three), wants).launch == {"trainer": 2}


def test_strict_spread_needs_different_nodes_and_avoids_those_of_its_other_bundles():
    large = node_type("large", most=9, CPU=16)
    here = (node(1, large, apart=["_PG_g"]), node(2, large))
    wants = Wants(here, gangs=(gang(3, "STRICT_SPREAD", "_PG_g", CPU=1),))
    assert decide(config(large), wants).launch == {"large": 2}


def test_strict_pack_needs_one_node_for_all():
    wants = Wants((), gangs=(gang(4, "STRICT_PACK", CPU=2),))
    assert decide(config(SMALL, LARGE), wants).launch == {"large": 1}
    assert decide(config(SMALL), wants).launch == {}


def test_pack_fills_nodes_and_spread_is_only_a_wish():
    assert decide(config(LARGE), Wants((), gangs=(gang(8, "PACK", CPU=2),))).launch == {"large": 1}
    wants = Wants((node(1, LARGE),), gangs=(gang(4, "SPREAD", CPU=2),))
    assert decide(config(LARGE), wants).launch == {}


def test_a_gang_within_one_domain_is_bought_where_fewest_nodes_are_missing():
    red = node_type("red", labels={"rack": "r1"}, CPU=1)
    blue = node_type("blue", labels={"rack": "r2"}, CPU=1)
    here = (node(1, red), node(2, blue), node(3, blue))
    wants = Wants(here, gangs=(gang(3, "STRICT_SPREAD", packed=("rack",), CPU=1),))
    assert decide(config(red, blue), wants).launch == {"blue": 1}
    decided = gang(3, "STRICT_SPREAD", packed=("rack",), values={"rack": "r1"}, CPU=1)
    assert decide(config(red, blue), Wants(here, gangs=(decided,))).launch == {"red": 2}


def test_a_floor_counts_what_is_used_and_adds_nothing_to_demand():
    full = tuple(node(n, SMALL, used={"CPU": 2}) for n in range(2))
    assert decide(config(SMALL), Wants(full, floor=(shape(4, CPU=1),))).launch == {}
    assert decide(config(SMALL), Wants(full, floor=(shape(6, CPU=1),))).launch == {"small": 1}
    both = Wants(full, (shape(2, CPU=1),), floor=(shape(6, CPU=1),))
    assert decide(config(SMALL), both).launch == {"small": 1}


def test_a_floor_keeps_idle_nodes():
    idle = tuple(node(n, SMALL, idle_ms=2 * IDLE_MS) for n in range(4))
    assert len(decide(config(SMALL), Wants(idle, floor=(shape(5, CPU=1),))).release) == 1
    assert len(decide(config(SMALL), Wants(idle)).release) == 4


def test_idle_nodes_go_after_their_time_unless_something_fits_there():
    young = node(1, SMALL, idle_ms=IDLE_MS - 1)
    old = node(2, SMALL, idle_ms=IDLE_MS)
    busy = node(3, SMALL, used={"CPU": 1})
    assert decide(config(SMALL), Wants((young, old, busy))).release == (old,)
    assert decide(config(SMALL), Wants((old,), (shape(1, CPU=1),))).release == ()


def test_the_head_and_nodes_of_nobody_are_never_given_back():
    head = Node(b"h" * 16, "", "", vector({"CPU": 4}), vector({"CPU": 4}), {}, idle_ms=9 * IDLE_MS)
    assert decide(config(SMALL), Wants((head,))).release == ()


amounts = st.fixed_dictionaries(
    {}, optional={"CPU": st.integers(1, 8), "GPU": st.integers(1, 2), "x": st.integers(1, 3)}
)
bundle = amounts.filter(bool)
strategies = st.sampled_from(["PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"])


@st.composite
def situations(draw):
    types = []
    for name in ("a", "b", "c")[: draw(st.integers(1, 3))]:
        least = draw(st.integers(0, 2))
        most = draw(st.integers(least, 6))
        types.append(node_type(name, least, most, **draw(bundle)))
    nodes = []
    for one in types:
        for _ in range(draw(st.integers(0, one.max_nodes))):
            kind = draw(st.sampled_from(["idle", "busy", "starting", "draining"]))
            nodes.append(
                node(
                    len(nodes),
                    one,
                    used={"CPU": 1} if kind == "busy" and "CPU" in one.resources else None,
                    idle_ms=draw(st.integers(1, 2 * IDLE_MS)) if kind == "idle" else None,
                    starting=kind == "starting",
                    draining=kind == "draining",
                )
            )
    shapes = [
        shape(draw(st.integers(1, 20)), **draw(bundle)) for _ in range(draw(st.integers(0, 3)))
    ]
    gangs = [
        Gang(
            bytes([number]),
            tuple(shape(**each) for each in draw(st.lists(bundle, min_size=1, max_size=5))),
            draw(strategies),
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    floor = [
        shape(draw(st.integers(1, 10)), **draw(bundle)) for _ in range(draw(st.integers(0, 2)))
    ]
    return config(*types), Wants(tuple(nodes), tuple(shapes), tuple(gangs), tuple(floor))


@settings(max_examples=300, deadline=None)
@given(situations())
def test_no_decision_leaves_the_bounds_of_a_type(situation):
    setup, wants = situation
    decision = decide(setup, wants)
    counts = Counter(one.node_type for one in wants.nodes)
    serving = Counter(one.node_type for one in wants.nodes if not one.draining)
    gone = Counter(one.node_type for one in decision.release)
    for one in setup.node_types.values():
        bought = decision.launch.get(one.name, 0)
        assert counts[one.name] + bought <= max(one.max_nodes, counts[one.name])
        left = serving[one.name] - gone[one.name] + bought
        # Draining nodes still count towards the maximum, so a minimum may have to wait for them.
        assert left >= min(one.min_nodes, one.max_nodes - counts[one.name] + serving[one.name])
    assert all(one.idle_ms is not None and not one.draining for one in decision.release)


@settings(max_examples=300, deadline=None)
@given(situations())
def test_once_bought_nothing_more_is_bought_for_the_same_wants(situation):
    """The nodes of a decision, as starting ones, satisfy what the decision was made for."""
    setup, wants = situation
    decision = decide(setup, wants)
    bought = [
        node(100 + number, setup.node_types[name], starting=True)
        for name, count in decision.launch.items()
        for number in range(count)
    ]
    again = decide(setup, Wants((*wants.nodes, *bought), wants.shapes, wants.gangs, wants.floor))
    assert sum(again.launch.values()) <= sum(decision.launch.values())
    if not wants.gangs and len(wants.shapes) <= 1 and not wants.floor:
        assert again.launch == {}


@settings(max_examples=200, deadline=None)
@given(situations())
def test_every_gang_is_placed_whole_or_named(situation):
    setup, wants = situation
    alone = Wants(wants.nodes, gangs=wants.gangs[:1])
    decision = decide(setup, alone)
    if decision.infeasible_gangs:
        # Not a single node was bought for it: only minimums.
        assert decision.launch == decide(setup, Wants(wants.nodes)).launch


def test_the_same_situation_leads_to_the_same_decision():
    wants = Wants((), (shape(3, CPU=2), shape(5, CPU=1)), (gang(3, "SPREAD", CPU=4),))
    assert decide(config(SMALL, LARGE), wants) == decide(config(SMALL, LARGE), wants)
