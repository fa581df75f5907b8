"""What Ray's actors and runtime context do: classes, methods, names, values of the context."""

from __future__ import annotations

import pytest

import shoal as ray

pytestmark = pytest.mark.usefixtures("one_node")

CONTEXT_METHODS = (
    "get_accelerator_ids",
    "get_actor_id",
    "get_actor_name",
    "get_assigned_resources",
    "get_job_id",
    "get_node_id",
    "get_node_labels",
    "get_placement_group_id",
    "get_runtime_env_string",
    "get_session_name",
    "get_task_function_name",
    "get_task_id",
    "get_task_name",
    "get_temp_dir",
    "get_worker_id",
    "is_canceled",
)
CONTEXT_PROPERTIES = (
    "current_actor",
    "gcs_address",
    "namespace",
    "runtime_env",
    "should_capture_child_tasks_in_placement_group",
    "was_current_actor_reconstructed",
)


def test_a_context_has_the_members_of_ray():
    names = CONTEXT_METHODS + CONTEXT_PROPERTIES
    assert [name for name in names if not hasattr(ray.RuntimeContext, name)] == []


def test_values_of_the_context_in_a_driver_a_task_and_an_actor(one_node):
    driver = ray.get_runtime_context()
    assert driver.get_task_id() is None
    assert driver.get_actor_id() is None
    assert driver.is_canceled() is False
    with pytest.raises(RuntimeError):
        driver.current_actor  # noqa: B018 - reading it is the test
    task = ray.get(ray.remote(context_values).options(name="named").remote())
    assert task["get_task_name"] == "named"
    assert task["get_actor_id"] is None
    assert task["get_job_id"] == driver.get_job_id() == ray.put(0).job_id().hex()
    assert task["get_worker_id"] != driver.get_worker_id()
    actor = ray.remote(Plain).options(name="context", num_cpus=0).remote()
    values = ray.get(actor.context.remote())
    assert values["get_actor_name"] == "context"
    assert values["namespace"] == driver.namespace
    assert values["was_current_actor_reconstructed"] is False
    assert values["get_actor_id"] == actor._actor_id.hex()


def test_classes_with_inherited_static_class_and_dunder_methods_become_actors():
    child = ray.remote(Child).options(num_cpus=0).remote(start=3)
    names = ("inherited", "overridden", "static", "of_class", "__len__")
    assert ray.get([getattr(child, name).remote() for name in names]) == [3, "child", 1, "Child", 5]
    assert not hasattr(child, "Inner")
    assert not hasattr(child, "missing")
    with pytest.raises(TypeError, match="inherit"):
        exec("class Wrong(base): pass", {"base": ray.remote(Child)})


def test_methods_take_options_at_the_call():
    child = ray.remote(Child).options(num_cpus=0).remote(start=3)
    first, second = child.pair.remote()
    assert ray.get([first, second]) == [1, 2]
    assert ray.get(child.pair.options(num_returns=1).remote()) == (1, 2)
    assert ray.get(child.named.options(name="other").remote()) == "other"
    with pytest.raises(ValueError, match="no option"):
        child.pair.options(num_cpus=1)


def test_hidden_methods_of_a_handle():
    child = ray.remote(Child).options(num_cpus=0).remote(start=3)
    assert ray.get(child.__ray_ready__.remote())
    assert ray.get(child.__ray_call__.remote(lambda self, add: self.start + add, 4)) == 7
    child.__ray_terminate__.remote()
    with pytest.raises(ray.exceptions.ActorDiedError) as caught:
        ray.get([child.inherited.remote() for _ in range(2)][-1])
    assert caught.value.cause.name == "EXITED"


def test_the_names_and_namespaces_of_actors(one_node):
    kept = [
        ray.remote(Plain).options(name="here", num_cpus=0).remote(),
        ray.remote(Plain).options(name="there", namespace="elsewhere", num_cpus=0).remote(),
    ]
    assert ray.get_actor("here") == kept[0]
    assert ray.get_actor("there", namespace="elsewhere") == kept[1]
    assert "here" in ray.util.list_named_actors()
    assert "there" not in ray.util.list_named_actors()
    row = {"name": "there", "namespace": "elsewhere"}
    assert row in ray.util.list_named_actors(all_namespaces=True)
    for name in ("there", "nobody", ""):
        with pytest.raises(ValueError, match="name"):
            ray.get_actor(name)
    with pytest.raises(ValueError, match="here"):
        ray.remote(Plain).options(name="here", num_cpus=0).remote()
    again = ray.remote(Plain).options(name="here", num_cpus=0, get_if_exists=True).remote()
    assert again == kept[0]


def context_values() -> dict[str, object]:
    context = ray.get_runtime_context()
    values = {name: getattr(context, name)() for name in CONTEXT_METHODS}
    names = [name for name in CONTEXT_PROPERTIES if name != "current_actor"]
    return values | {name: getattr(context, name) for name in names}


class Plain:
    def context(self) -> dict[str, object]:
        return context_values()


class Base:
    def __init__(self, start: int = 0) -> None:
        self.start = start

    def inherited(self) -> int:
        return self.start

    def overridden(self) -> str:
        return "base"


class Child(Base):
    class Inner:
        """No method."""

    def overridden(self) -> str:
        return "child"

    @staticmethod
    def static() -> int:
        return 1

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__

    def __len__(self) -> int:
        return 5

    @ray.method(num_returns=2)
    def pair(self) -> tuple[int, int]:
        return 1, 2

    def named(self) -> str | None:
        return ray.get_runtime_context().get_task_name()
