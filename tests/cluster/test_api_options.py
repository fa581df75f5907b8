"""Every option of Ray's `remote`, `options` and `method`: taken, or refused where it is written."""

from __future__ import annotations

import pytest

import shoal as ray

pytestmark = pytest.mark.usefixtures("one_node")

COMMON_OPTIONS = {
    "num_cpus": 1,
    "num_gpus": 0.5,
    "memory": 1 << 20,
    "resources": {"slot": 1},
    "accelerator_type": "A100",
    "label_selector": {"rack": "!in(a,b)"},
    "fallback_strategy": [{"label_selector": {"rack": "c"}}],
    "name": "n",
    "runtime_env": {"env_vars": {"A": "1"}},
    "scheduling_strategy": "SPREAD",
    "enable_task_events": False,
    "_labels": {"a": "b"},
}
TASK_OPTIONS = COMMON_OPTIONS | {
    "max_calls": 1,
    "max_retries": -1,
    "retry_exceptions": [KeyError],
    "num_returns": "streaming",
    "_generator_backpressure_num_objects": 2,
}
ACTOR_OPTIONS = COMMON_OPTIONS | {
    "lifetime": "detached",
    "namespace": "n",
    "get_if_exists": True,
    "max_restarts": -1,
    "max_task_retries": -1,
    "max_concurrency": 2,
    "max_pending_calls": 5,
    "concurrency_groups": {"io": 2},
    "allow_out_of_order_execution": True,
}
METHOD_OPTIONS = {
    "num_returns": 2,
    "concurrency_group": "io",
    "max_task_retries": 1,
    "retry_exceptions": True,
    "enable_task_events": False,
    "tensor_transport": None,
    "_generator_backpressure_num_objects": 1,
}
BAD_OPTIONS = [
    ({"num_cpu": 1}, ValueError),
    ({"num_cpus": -1}, ValueError),
    ({"num_gpus": 1.5}, ValueError),
    ({"resources": {"CPU": 1}}, ValueError),
    ({"resources": {"GPU": 1}}, ValueError),
    ({"max_retries": -2}, ValueError),
    ({"num_returns": -1}, ValueError),
    ({"num_returns": "lots"}, ValueError),
    ({"retry_exceptions": "all"}, (TypeError, ValueError)),
    ({"max_restarts": 1}, ValueError),
]


@pytest.mark.parametrize("option", TASK_OPTIONS)
def test_a_task_option_is_taken_by_the_decorator_and_by_options(option):
    ray.remote(**{option: TASK_OPTIONS[option]})(len_of)
    ray.remote(len_of).options(**{option: TASK_OPTIONS[option]})


@pytest.mark.parametrize("option", ACTOR_OPTIONS)
def test_an_actor_option_is_taken_by_the_decorator_and_by_options(option):
    ray.remote(**{option: ACTOR_OPTIONS[option]})(Plain)
    ray.remote(Plain).options(**{option: ACTOR_OPTIONS[option]})


@pytest.mark.parametrize("option", METHOD_OPTIONS)
def test_a_method_option_is_taken_by_the_decorator(option):
    ray.method(**{option: METHOD_OPTIONS[option]})(len_of)


@pytest.mark.parametrize(("options", "error"), BAD_OPTIONS)
def test_a_bad_option_is_refused_where_it_is_written(options, error):
    with pytest.raises(error):
        ray.remote(**options)(len_of)
    with pytest.raises(error):
        ray.remote(len_of).options(**options)


def len_of(value: object) -> int:
    return len(value)  # type: ignore[arg-type]


class Plain:
    """Any class."""
