"""Wrong input: refused at the call, with the name of the thing and what is allowed."""

from __future__ import annotations

import pytest

import shoal
from shoal.util.placement_group import placement_group
from shoal.util.scheduling_strategies import (
    NodeAffinitySchedulingStrategy,
    PlacementGroupSchedulingStrategy,
)
from tests.cluster.remote_code import Counter, increment

pytestmark = pytest.mark.usefixtures("one_node")

COMMON = [
    ({"num_cpus": -1}, "num_cpus"),
    ({"num_cpus": "two"}, "num_cpus"),
    ({"num_gpus": 1.5}, "num_gpus|GPU"),
    ({"num_gpus": -1}, "num_gpus"),
    ({"memory": -1}, "memory"),
    ({"resources": {"CPU": 1}}, "CPU"),
    ({"resources": {"GPU": 1}}, "GPU"),
    ({"resources": {"slot": -1}}, "slot"),
    ({"resources": [1]}, "resources"),
    ({"scheduling_strategy": "SOMEHOW"}, "SOMEHOW"),
    ({"scheduling_strategy": 7}, "scheduling_strategy"),
    ({"label_selector": {"rack": "in(r1"}}, "rack|in\\("),
    ({"name": 7}, "name"),
    ({"no_such_option": 1}, "no_such_option"),
]
TASK = [
    ({"num_returns": -1}, "num_returns"),
    ({"max_retries": -2}, "max_retries"),
    ({"max_restarts": 1}, "max_restarts"),
    ({"retry_exceptions": 7}, "retry_exceptions"),
]
ACTOR = [
    ({"max_restarts": -2}, "max_restarts"),
    ({"max_task_retries": -2}, "max_task_retries"),
    ({"max_concurrency": 0}, "max_concurrency"),
    ({"max_pending_calls": -2}, "max_pending_calls"),
    ({"lifetime": "eternal"}, "eternal|lifetime"),
    ({"name": ""}, "name"),
    ({"get_if_exists": True}, "name"),
    ({"namespace": 7}, "namespace"),
    ({"max_retries": 1}, "max_retries"),
]


@pytest.mark.parametrize(("options", "names"), COMMON + TASK)
def test_a_wrong_task_option_is_refused_by_name(options, names):
    with pytest.raises((ValueError, TypeError), match=names):
        increment.options(**options).remote(1)


@pytest.mark.parametrize(("options", "names"), COMMON + ACTOR)
def test_a_wrong_actor_option_is_refused_by_name(options, names):
    with pytest.raises((ValueError, TypeError), match=names):
        Counter.options(**options).remote()


@pytest.mark.parametrize(
    ("bundles", "options", "names"),
    [
        ([], {}, "bundles"),
        ({"CPU": 1}, {}, "bundles"),
        ([{}], {}, "0|empty"),
        ([{"CPU": 1}, {"CPU": 0}], {}, "1|zero"),
        ([{"CPU": -1}], {}, "CPU"),
        ([{"CPU": "1"}], {}, "CPU"),
        ([{7: 1}], {}, "7"),
        ([{"bundle": 1}], {}, "bundle"),
        ([{"CPU": 1}], {"strategy": "SCATTER"}, "STRICT_SPREAD"),
        ([{"CPU": 1}], {"lifetime": "eternal"}, "detached"),
        ([{"CPU": 1}], {"name": 7}, "name"),
        ([{"CPU": 1}], {"bundle_label_selector": [{}, {}]}, "bundle_label_selector|selector"),
        ([{"CPU": 1}], {"bundle_label_selector": [{"rack": "in("}]}, "rack|in\\("),
        ([{"CPU": 1}], {"topology_strategy": {"rack": "SOMEHOW"}}, "STRICT_PACK"),
        ([{"CPU": 1}], {"topology_strategy": "rack"}, "topology_strategy"),
        ([{"CPU": 1}], {"on_loss": "cry"}, "replace"),
        (
            [{"CPU": 1}] * 2,
            {
                "strategy": "STRICT_PACK",
                "bundle_label_selector": [{"rack": "a"}, {"rack": "b"}],
            },
            "rack|STRICT_PACK",
        ),
    ],
)
def test_a_wrong_group_is_refused_at_the_call(bundles, options, names):
    with pytest.raises((ValueError, TypeError), match=names):
        placement_group(bundles, **options)


def test_a_bundle_index_out_of_range_is_refused():
    group = placement_group([{"CPU": 1}])
    for index in (1, -2):
        with pytest.raises(ValueError, match="index"):
            increment.options(
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, index)
            ).remote(1)
    shoal.util.remove_placement_group(group)


def test_work_that_fits_no_bundle_of_its_group_is_refused():
    group = placement_group([{"CPU": 1}])
    strategy = PlacementGroupSchedulingStrategy(group)
    with pytest.raises(ValueError, match="CPU"):
        increment.options(num_cpus=2, scheduling_strategy=strategy).remote(1)
    with pytest.raises(ValueError, match="slot"):
        increment.options(resources={"slot": 1}, scheduling_strategy=strategy).remote(1)
    shoal.util.remove_placement_group(group)


def test_a_node_id_that_is_none_is_refused():
    for wrong in ("", "xyz", 7):
        with pytest.raises((ValueError, TypeError)):
            increment.options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(wrong, soft=False)
            ).remote(1)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"num_cpus": -1}, "num_cpus|CPU"),
        ({"resources": {"CPU": 1}}, "CPU"),
        ({"labels": {"": "x"}}, "label"),
        ({"address": "nowhere"}, "nowhere"),
        ({"address": "127.0.0.1:99999"}, "99999"),
        ({"no_such_option": 1}, "no_such_option"),
    ],
)
def test_a_wrong_init_is_refused_before_anything_starts(options, names):
    from tests.cluster.drivers import run_driver

    done = run_driver(
        f"""
        import shoal
        try:
            shoal.init(**{options!r})
        except (ValueError, TypeError) as error:
            print("refused:", error)
        """
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused:")
    import re

    assert re.search(names, done.stdout)
