"""A request that contradicts itself is refused here, with what is allowed."""

import pytest

from cluster_api.v1 import placement_groups_pb2 as pg
from driver_client.core.group_request import checked_spec

NODE = "ab" * 16


def spec(bundles=({"CPU": 1},), strategy=None, name="", lifetime=None, **other):
    given = {
        "bundle_label_selector": None,
        "topology_strategy": None,
        "on_loss": "replace",
        "soft_target_node_id": None,
        **other,
    }
    return checked_spec(list(bundles), strategy, name, lifetime, **given)


def test_an_ordinary_request():
    made = spec([{"CPU": 1, "x": 0.5}, {"GPU": 2}], "SPREAD", "n", "detached", on_loss="restart")
    amounts = [dict(bundle.resources.amounts) for bundle in made.bundles]
    assert amounts == [{"CPU": 10_000, "x": 5_000}, {"GPU": 20_000}]
    assert made.strategy == pg.PLACEMENT_STRATEGY_SPREAD
    assert (made.name, made.detached, made.on_loss) == ("n", True, pg.ON_LOSS_RESTART)
    assert made.placement_group_id == b""


def test_pack_and_replace_are_the_defaults():
    made = spec()
    assert made.strategy == pg.PLACEMENT_STRATEGY_PACK
    assert made.on_loss == pg.ON_LOSS_REPLACE
    assert not made.detached


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"bundles": []}, "bundles must be a non-empty list"),
        ({"bundles": [5]}, "bundle 0 must be a dict"),
        ({"bundles": [{"CPU": 1}, {}]}, "bundle 1 is empty"),
        ({"bundles": [{"CPU": 0}]}, "bundle 0 is empty or all zero"),
        ({"bundles": [{"CPU": -1}]}, "bundle 0: "),
        ({"bundles": [{"CPU": "1"}]}, "bundle 0: "),
        ({"strategy": "BEST"}, r"strategy must be one of \['PACK'"),
        ({"strategy": ["PACK"]}, r"strategy must be one of \['PACK'"),
        ({"strategy": 1}, r"strategy must be one of \['PACK'"),
        ({"name": 5}, "name must be a text"),
        ({"name": "n" * 513}, "more than 512 bytes"),
        ({"lifetime": "forever"}, "lifetime must be None or 'detached'"),
        ({"on_loss": "ignore"}, r"on_loss must be one of \['replace'"),
        ({"on_loss": ["replace"]}, r"on_loss must be one of \['replace'"),
        ({"bundle_label_selector": {"a": "b"}}, "bundle_label_selector must be a list of 1"),
        ({"bundle_label_selector": [{}, {}]}, "bundle_label_selector must be a list of 1"),
        ({"bundle_label_selector": ["a"]}, r"bundle_label_selector\[0\] must be a dict"),
        ({"bundle_label_selector": [{"a": "in(b"}]}, r"bundle_label_selector\[0\]: .*'in\(a,b\)'"),
        ({"bundle_label_selector": [{"a": 5}]}, r"bundle_label_selector\[0\].*'a'.*text"),
        ({"bundle_label_selector": [{5: "a"}]}, r"bundle_label_selector\[0\].*5.*text"),
        ({"topology_strategy": "rack"}, "topology_strategy must be a dict"),
        ({"topology_strategy": {}}, "topology_strategy must be a dict"),
        ({"topology_strategy": {"rack": "TIGHT"}}, r"topology_strategy\['rack'\] must be one of"),
        ({"topology_strategy": {"!": "PACK"}}, "label '!' must be letters"),
        ({"topology_strategy": {5: "PACK"}}, "topology_strategy.*5.*text"),
        ({"strategy": "PACK", "topology_strategy": {"node": "SPREAD"}}, "given twice"),
        ({"soft_target_node_id": NODE}, "goes with strategy STRICT_PACK only"),
        ({"strategy": "STRICT_PACK", "soft_target_node_id": "xyz"}, "_soft_target_node_id"),
    ],
)
def test_a_wrong_request_names_what_is_allowed(wrong, said):
    with pytest.raises(ValueError, match=said):
        spec(**wrong)


def test_one_selector_serves_all_bundles():
    made = spec([{"CPU": 1}] * 3, bundle_label_selector=[{"zone": "a"}])
    assert [dict(bundle.selector.terms) for bundle in made.bundles] == [{"zone": "a"}] * 3


def test_the_node_level_of_a_topology_is_the_strategy():
    made = spec(topology_strategy={"node": "STRICT_SPREAD", "rack": "STRICT_PACK"})
    assert made.strategy == pg.PLACEMENT_STRATEGY_STRICT_SPREAD
    assert [(level.label, level.strategy) for level in made.topology] == [
        ("rack", pg.PLACEMENT_STRATEGY_STRICT_PACK)
    ]


def test_selectors_that_no_single_node_passes_contradict_strict_pack():
    selectors = [{"zone": "a"}, {"zone": "!a"}]
    with pytest.raises(ValueError, match="label 'zone'"):
        spec([{"CPU": 1}] * 2, "STRICT_PACK", bundle_label_selector=selectors)
    spec([{"CPU": 1}] * 2, "PACK", bundle_label_selector=selectors)
    same = [{"zone": "in(a,b)"}, {"zone": "in(b,c)"}]
    spec([{"CPU": 1}] * 2, "STRICT_PACK", bundle_label_selector=same)


def test_a_soft_target_goes_with_strict_pack():
    made = spec(strategy="STRICT_PACK", soft_target_node_id=NODE)
    assert made.soft_target_node_id == bytes.fromhex(NODE)
