"""`get_runtime_context()`: where this code runs and for whom.

Ids are hex; None off an actor or task.
"""

from __future__ import annotations

from typing import Any

from cluster_common import labels, resources
from driver_client import process
from driver_client.actor_handle import ActorHandle, decode
from driver_client.printed_id import ActorID, JobID, NodeID, TaskID, WorkerID
from driver_client.runtime_env import RuntimeEnv
from driver_client.shell import running
from driver_client.shell.process_facts import ProcessFacts


class RuntimeContext:
    """A view of the process's facts; cheap to make."""

    def __init__(self, facts: ProcessFacts) -> None:
        self._facts = facts

    def get(self) -> dict[str, Any]:
        """The ids that apply, by name: job, node, namespace, and task or actor if there is one."""
        told: dict[str, Any] = {
            "job_id": self.job_id,
            "node_id": self.node_id,
            "namespace": self.namespace,
        }
        if self.task_id is not None:
            told["task_id"] = self.task_id
        if self.actor_id is not None:
            told["actor_id"] = self.actor_id
        return told

    @property
    def job_id(self) -> JobID:
        """The job."""
        return JobID(self._facts.job_id)

    @property
    def node_id(self) -> NodeID:
        """The node this process runs on."""
        return NodeID(self._facts.node_id)

    @property
    def worker_id(self) -> WorkerID:
        """This process."""
        return WorkerID(self._facts.owner_id)

    @property
    def task_id(self) -> TaskID | None:
        """The task or call that is running."""
        task = running.current.get()
        return TaskID(task.task_id) if task is not None else None

    @property
    def actor_id(self) -> ActorID | None:
        """The actor this process is."""
        return ActorID(self._facts.actor_id) if self._facts.actor_id else None

    def get_job_id(self) -> str:
        """The job."""
        return self._facts.job_id.hex()

    def get_node_id(self) -> str:
        """The node this process runs on (a driver: its home agent's)."""
        return self._facts.node_id.hex()

    def get_worker_id(self) -> str:
        """This process."""
        return self._facts.owner_id.hex()

    def get_task_id(self) -> str | None:
        """The task or call that is running."""
        task = running.current.get()
        return task.task_id.hex() if task is not None else None

    def get_task_name(self) -> str | None:
        """Its name."""
        task = running.current.get()
        return task.name if task is not None else None

    def get_task_function_name(self) -> str | None:
        """Its function's name, with module and class."""
        task = running.current.get()
        return task.function.full_name if task is not None else None

    def is_canceled(self) -> bool:
        """Whether the call that is running was cancelled: long actor methods look and stop."""
        task = running.current.get()
        return task is not None and task.task_id in running.cancelled

    def get_actor_id(self) -> str | None:
        """The actor this process is."""
        return self._facts.actor_id.hex() if self._facts.actor_id else None

    def get_actor_name(self) -> str | None:
        """Its name, "" if it has none."""
        return self._facts.actor_name if self._facts.actor_id else None

    @property
    def namespace(self) -> str:
        """The namespace of the job."""
        return self._facts.namespace

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether this is not the actor's first start."""
        return self._facts.actor_incarnation > 1

    @property
    def current_actor(self) -> ActorHandle:
        """A handle to this actor that does not keep it alive.

        Raises:
            RuntimeError: not inside an actor.
        """
        if not self._facts.actor_handle:
            raise RuntimeError("current_actor is only known inside an actor")
        return ActorHandle(decode(self._facts.actor_handle), None)

    def get_placement_group_id(self) -> str | None:
        """The placement group this code runs in."""
        group = running.group_now()[0] or self._facts.placement_group_id
        return group.hex() if group else None

    @property
    def should_capture_child_tasks_in_placement_group(self) -> bool:
        """Whether what is submitted here goes into the same group."""
        return running.group_now()[1]

    def get_assigned_resources(self) -> dict[str, float]:
        """What the running lease holds."""
        return resources.floats(self._facts.resources)

    def get_accelerator_ids(self) -> dict[str, list[str]]:
        """Device ids per resource."""
        ids = {name: [str(i) for i in devices] for name, devices in self._facts.devices.items()}
        return {"GPU": [], **ids}

    def get_node_labels(self) -> dict[str, str]:
        """Labels of the node."""
        return labels.shown(self._facts.labels)

    def get_runtime_env_string(self) -> str:
        """The runtime environment as JSON."""
        return self._facts.runtime_env_json or "{}"

    @property
    def runtime_env(self) -> RuntimeEnv:
        """The runtime environment."""
        return RuntimeEnv.deserialize(self._facts.runtime_env_json)

    @property
    def gcs_address(self) -> str:
        """host:port of the GCS."""
        return self._facts.gcs_address

    def get_session_name(self) -> str:
        """The cluster session."""
        return self._facts.session_name

    def get_temp_dir(self) -> str:
        """The folder of session files on this node."""
        return self._facts.temp_dir


def get_runtime_context() -> RuntimeContext:
    """The context of this process; connects first where `init` was not called."""
    return RuntimeContext(process.get_runtime().facts)
