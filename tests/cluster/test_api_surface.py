"""Every public name of Ray's core API: it is there, with the signature and errors of Ray.

The list is RAY_FACTS C1 to C3 as data; what behaves differently on purpose is named here too.
"""

from __future__ import annotations

import inspect

import pytest

import shoal as ray
from shoal.util.placement_group import PlacementGroup, placement_group
from shoal.util.scheduling_strategies import (
    DoesNotExist,
    Exists,
    In,
    NodeAffinitySchedulingStrategy,
    NodeLabelSchedulingStrategy,
    NotIn,
    PlacementGroupSchedulingStrategy,
)

pytestmark = pytest.mark.usefixtures("one_node")

SIGNATURES = {
    "init": (
        "address=None *num_cpus=None *num_gpus=None *resources=None *labels=None "
        "*object_store_memory=None *local_mode=False *ignore_reinit_error=False "
        "*log_to_driver=True *namespace=None *runtime_env=None *job_config=None"
    ),
    "shutdown": "*wait_for_processes=False",
    "is_initialized": "",
    "get": "object_refs *timeout=None",
    "put": "value *_owner=None",
    "timeline": "filename=None",
    "wait": "ray_waitables *num_returns=1 *timeout=None *fetch_local=True",
    "kill": "actor *no_restart=True",
    "cancel": "ref *force=False *recursive=True",
    "get_actor": "name namespace=None",
    "nodes": "",
    "cluster_resources": "",
    "available_resources": "",
    "get_gpu_ids": "",
    "get_runtime_context": "",
    "util.list_named_actors": "all_namespaces=False",
    "util.placement_group": (
        "bundles strategy=None name='' lifetime=None _soft_target_node_id=None "
        "bundle_label_selector=None topology_strategy=None"
    ),
    "util.remove_placement_group": "placement_group",
    "util.get_placement_group": "placement_group_name",
    "util.placement_group_table": "placement_group=None",
    "util.get_current_placement_group": "",
    "util.ActorPool": "actors",
    "util.ActorPool.map": "self fn values",
    "util.ActorPool.map_unordered": "self fn values",
    "util.ActorPool.submit": "self fn value",
    "util.ActorPool.get_next": "self timeout=None ignore_if_timedout=False",
    "util.ActorPool.get_next_unordered": "self timeout=None ignore_if_timedout=False",
    "util.ActorPool.has_next": "self",
    "util.ActorPool.has_free": "self",
    "util.ActorPool.pop_idle": "self",
    "util.ActorPool.push": "self actor",
    "actor.exit_actor": "",
}
"""`*name`: keyword only. More arguments than Ray's are allowed, with defaults."""

REMOTE_FUNCTION = ("bind", "options", "remote")
OBJECT_REF = ("as_future", "binary", "future", "hex", "job_id", "task_id", "__await__")
GENERATOR = ("__aiter__", "__anext__", "__iter__", "__next__", "completed")
PLACEMENT_GROUP = (
    "bundle_count",
    "bundle_specs",
    "empty",
    "id",
    "is_empty",
    "ready",
    "wait",
)

EXCEPTIONS = {
    "RayError": ("Exception",),
    "RayTaskError": ("RayError",),
    "TaskCancelledError": ("RayError",),
    "WorkerCrashedError": ("RayError",),
    "RayActorError": ("RayError",),
    "ActorDiedError": ("RayActorError",),
    "ActorUnavailableError": ("RayActorError",),
    "OutOfMemoryError": ("RayError",),
    "NodeDiedError": ("RayError",),
    "LocalRayletDiedError": ("RayError",),
    "ObjectLostError": ("RayError",),
    "ObjectFetchTimedOutError": ("ObjectLostError",),
    "ObjectFreedError": ("ObjectLostError",),
    "OwnerDiedError": ("ObjectLostError",),
    "ReferenceCountingAssertionError": ("ObjectLostError", "AssertionError"),
    "ObjectReconstructionFailedError": ("ObjectLostError",),
    "GetTimeoutError": ("RayError", "TimeoutError"),
    "RuntimeEnvSetupError": ("RayError",),
    "TaskPlacementGroupRemoved": ("RayError",),
    "ActorPlacementGroupRemoved": ("RayError",),
    "PendingCallsLimitExceeded": ("RayError",),
    "TaskUnschedulableError": ("RayError",),
    "ActorUnschedulableError": ("RayError",),
    "ObjectStoreFullError": ("RayError",),
    "OutOfDiskError": ("RayError",),
    "RaySystemError": ("RayError",),
    "RpcError": ("RayError",),
    "AuthenticationError": ("RayError",),
    "UserCodeException": ("RayError",),
    "ActorAlreadyExistsError": ("RayError", "ValueError"),
    "ActorHandleNotFoundError": ("RayError", "ValueError"),
}


def found(path):
    value = ray
    for name in path.split("."):
        value = getattr(value, name)
    return value


def parameters(function):
    wanted = {}
    for name, parameter in inspect.signature(function).parameters.items():
        is_named = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        default = parameter.default
        text = "" if default is inspect.Parameter.empty else f"={default!r}"
        wanted[name] = f"{'*' if is_named else ''}{name}{text}"
    return wanted


@pytest.mark.parametrize("path", SIGNATURES)
def test_a_function_has_the_arguments_of_ray(path):
    ours = parameters(found(path))
    listed = SIGNATURES[path].split()
    assert [text for text in listed if text not in ours.values()] == []
    extra = [text for text in ours.values() if text not in listed]
    assert [text for text in extra if "=" not in text and text != "private"] == []


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (ray.RemoteFunction, REMOTE_FUNCTION),
        (ray.ActorClass, REMOTE_FUNCTION),
        (ray.ObjectRef, OBJECT_REF),
        (ray.ObjectRefGenerator, GENERATOR),
        (PlacementGroup, PLACEMENT_GROUP),
    ],
)
def test_a_class_has_the_members_of_ray(owner, names):
    assert [name for name in names if not hasattr(owner, name)] == []


def test_the_waiting_time_of_a_group_is_thirty_seconds_by_default():
    assert parameters(PlacementGroup.wait)["timeout_seconds"] == "timeout_seconds=30"


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_an_error_class_has_the_bases_of_ray(name):
    error = getattr(ray.exceptions, name)
    bases = {base.__name__ for base in inspect.getmro(error)}
    assert set(EXCEPTIONS[name]) <= bases


def test_strategies_take_the_arguments_of_ray():
    group = placement_group([{"CPU": 1}])
    strategy = PlacementGroupSchedulingStrategy(placement_group=group)
    assert strategy.placement_group_bundle_index == -1
    assert strategy.placement_group_capture_child_tasks is None
    NodeAffinitySchedulingStrategy("ab" * 16, soft=True, _spill_on_unavailable=True)
    node = ray.nodes()[0]["NodeID"]
    for hard in (
        {"rack": DoesNotExist()},
        {"rack": NotIn("a", "b")},
        {"shoal.io/node-id": Exists()},
    ):
        strategy = NodeLabelSchedulingStrategy(hard=hard, soft={"rack": In("a")})
        where = ray.remote(node_of).options(scheduling_strategy=strategy).remote()
        assert ray.get(where, timeout=20) == node
    ray.util.remove_placement_group(group)


def test_init_answers_with_addresses_and_refuses_a_second_call():
    with pytest.raises(RuntimeError, match="ignore_reinit_error"):
        ray.init()
    context = ray.init(ignore_reinit_error=True)
    assert context["gcs_address"] == context.address_info["address"]
    assert {"node_id", "node_ip_address", "session_name"} <= set(context)
    assert context.dashboard_url is None


def test_nodes_have_the_keys_of_ray():
    (node,) = ray.nodes()
    assert {
        "NodeID",
        "Alive",
        "alive",
        "NodeManagerAddress",
        "NodeManagerHostname",
        "NodeManagerPort",
        "ObjectManagerPort",
        "ObjectStoreSocketName",
        "RayletSocketName",
        "MetricsExportPort",
        "NodeName",
        "DeathReason",
        "DeathReasonMessage",
        "Resources",
        "Labels",
    } <= set(node)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ray.get("x"),
        lambda: ray.get((ray.put(1),)),
        lambda: ray.put(ray.put(1)),
        lambda: ray.wait(ray.put(1)),
        lambda: ray.wait(["x"]),
        lambda: ray.cancel("x"),
        lambda: ray.remote(len_of)([]),
        lambda: ray.remote(Plain)(),  # noqa: PLW0108 - the class comes below
        lambda: ray.remote(3),
    ],
)
def test_the_wrong_type_is_a_type_error(call):
    with pytest.raises(TypeError):
        call()


def test_killing_something_else_is_a_value_error():
    with pytest.raises(ValueError, match="actor"):
        ray.kill("x")


def len_of(value: object) -> int:
    return len(value)  # type: ignore[arg-type]


def node_of() -> str:
    return ray.get_runtime_context().get_node_id()


class Plain:
    """Any class."""
