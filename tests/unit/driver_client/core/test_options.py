"""Every option's bad values name the option, what was wrong and what is allowed."""

import re

import pytest

from driver_client.core import options
from driver_client.core.options import ACTOR_OPTIONS, METHOD_OPTIONS, TASK_OPTIONS, check

ALL = TASK_OPTIONS | ACTOR_OPTIONS | METHOD_OPTIONS

BAD = {
    "num_cpus": [-1, "two", True, float("nan"), float("inf")],
    "num_gpus": [-0.5, "one", [1]],
    "memory": [-1, "1G"],
    "object_store_memory": [-1, "1G"],
    "resources": [["x"], {"CPU": 1}, {"GPU": 1}, {"memory": 1}, {"x": -1}, {"x": "1"}],
    "name": [5, ""],
    "namespace": [5, ""],
    "accelerator_type": [5, ""],
    "concurrency_group": [5, ""],
    "max_calls": [-1, 1.5, True],
    "max_retries": [-2, "3", 1.0],
    "max_restarts": [-2, "3"],
    "max_task_retries": [-2, None.__class__],
    "max_concurrency": [0, -1, "x"],
    "max_pending_calls": [-2, 0.5],
    "num_returns": [-1, "many", 1.5, True],
    "_generator_backpressure_num_objects": [0, "many"],
    "retry_exceptions": ["yes", [1], ValueError, [ValueError, "x"]],
    "lifetime": ["forever", 1],
    "get_if_exists": [1, "yes"],
    "allow_out_of_order_execution": [1],
    "enable_task_events": [1],
    "label_selector": ["a=b", {"a": 1}, {"a": "in(b"}, {"!": "b"}],
    "fallback_strategy": [{"label_selector": {}}, [{}], [{"other": {}}], [5]],
    "runtime_env": ["pip", {"conda": ["x"]}, {"env_vars": {"A": 1}}, {"env_vars": {1: "a"}}],
    "concurrency_groups": [["io"], {"io": 0}, {"io": "two"}, [{"name": "io"}]],
    "placement_group_bundle_index": [-2, "first"],
    "placement_group_capture_child_tasks": [1],
    "_labels": ["a=b"],
}

GOOD = {
    "num_cpus": [0, 1, 0.5],
    "num_gpus": [0, 1, 0.25],
    "memory": [0, 1 << 30],
    "resources": [{}, {"x": 1}],
    "name": ["n"],
    "max_calls": [0, 1],
    "max_retries": [-1, 0, 3],
    "max_restarts": [-1, 0],
    "max_concurrency": [1, 1000],
    "max_pending_calls": [-1, 5],
    "num_returns": [0, 1, 7, "streaming", "dynamic"],
    "retry_exceptions": [True, False, [ValueError], (OSError, ValueError)],
    "lifetime": ["detached", "non_detached"],
    "label_selector": [{}, {"a": "b", "c": "!in(d,e)"}],
    "fallback_strategy": [[], [{"label_selector": {"a": "b"}}]],
    "runtime_env": [{}, {"env_vars": {"A": "1"}}, {"pip": ["x"], "config": None}],
    "concurrency_groups": [{}, {"io": 2}, [{"name": "io", "max_concurrency": 2}]],
    "_generator_backpressure_num_objects": [1, -1],
}


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in BAD.items() for v in values])
def test_a_bad_value_names_its_option(name, value):
    with pytest.raises((TypeError, ValueError), match=re.escape(name)) as caught:
        check({name: value}, ALL, "a task")
    assert re.search(r"must|allowed|is not|not known|expected", str(caught.value)), caught.value


@pytest.mark.parametrize(("name", "value"), [(n, v) for n, values in GOOD.items() for v in values])
def test_a_good_value_passes(name, value):
    check({name: value}, ALL, "a task")


def test_none_is_always_the_default():
    check(dict.fromkeys(ALL), ALL, "a task")


def test_every_check_belongs_to_an_option_and_has_bad_values_here():
    assert set(options._CHECKS) <= ALL
    assert set(options._CHECKS) == set(BAD)


@pytest.mark.parametrize(
    ("allowed", "what", "name"),
    [
        (TASK_OPTIONS, "a remote function", "max_restarts"),
        (ACTOR_OPTIONS, "an actor class", "max_retries"),
        (METHOD_OPTIONS, "an actor method", "num_cpus"),
    ],
)
def test_an_option_of_something_else_is_refused_with_the_list(allowed, what, name):
    with pytest.raises(ValueError, match=f"{what} has no option '{name}'") as caught:
        check({name: 1}, allowed, what)
    assert ", ".join(sorted(allowed)) in str(caught.value)


def test_the_first_wrong_key_of_a_dict_is_named():
    with pytest.raises(ValueError, match="conda"):
        check({"runtime_env": {"conda": "x"}}, TASK_OPTIONS, "a task")
    with pytest.raises(ValueError, match=r"concurrency_groups\['io'\]"):
        check({"concurrency_groups": {"io": 0}}, ACTOR_OPTIONS, "an actor")
