"""`init` and `shutdown`: connects this process; starts a local cluster if there is none to join."""

from __future__ import annotations

import atexit
import os
import platform
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from cluster_common import labels as label_rules
from cluster_common import resources as resource_rules
from driver_client import process
from driver_client.connect import connect_driver, disconnect_driver
from driver_client.core import options as option_rules
from driver_client.core.shapes import is_dict
from driver_client.shell.environment_texts import pack
from driver_client.shell.loop_thread import end_waiting_thread
from driver_client.shell.package_archives import PackageArchives
from driver_client.shell.runtime import Runtime
from shoal import processes
from shoal._version import __version__
from shoal.job_config import DETACHED, JobConfig
from shoal.session_folder import default_temp_dir

ADDRESS_VARIABLE = "SHOAL_ADDRESS"
NAMESPACE_VARIABLE = "SHOAL_NAMESPACE"

_local: processes.LocalCluster | None = None

# Accepted for Ray programs; they change nothing here.
_IGNORED = frozenset(
    {
        "_enable_object_reconstruction",
        "_metrics_export_port",
        "_node_name",
        "_redis_password",
        "_temp_dir",
        "cgroup_path",
        "configure_logging",
        "dashboard_host",
        "dashboard_port",
        "enable_resource_isolation",
        "include_dashboard",
        "logging_config",
        "logging_format",
        "logging_level",
        "proxy_server_url",
        "system_reserved_cpu",
        "system_reserved_memory",
    }
)


class ClientContext(Mapping[str, Any]):
    """What `init` returns: a mapping of addresses, and a context manager that shuts down."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self.address_info = facts
        self.dashboard_url: str | None = None
        self.python_version = platform.python_version()
        self.ray_version = __version__

    def __getitem__(self, key: str) -> Any:
        return self._facts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def __repr__(self) -> str:
        return f"ClientContext({self._facts})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        shutdown()

    def disconnect(self) -> None:
        """The same as `shutdown()`."""
        shutdown()


def init(
    address: str | None = None,
    *,
    num_cpus: float | None = None,
    num_gpus: float | None = None,
    resources: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    object_store_memory: int | None = None,
    ignore_reinit_error: bool = False,
    log_to_driver: bool = True,
    namespace: str | None = None,
    runtime_env: dict[str, Any] | None = None,
    job_config: JobConfig | None = None,
    local_mode: bool = False,
    **private: Any,
) -> ClientContext:
    """Connects this process to a cluster.

    Args:
        address: `host:port` of a GCS, "local" (start one), "auto" (`SHOAL_ADDRESS` must name one);
            None: `SHOAL_ADDRESS` if set, else start a local cluster that ends with this process.
        num_cpus: of the local cluster's node; None: as the machine has.
        num_gpus: of the local cluster's node.
        resources: custom ones of the local cluster's node.
        labels: of the local cluster's node.
        object_store_memory: bytes, of the local cluster's node.
        ignore_reinit_error: a second call is not an error and changes nothing.
        log_to_driver: print the workers' output here.
        namespace: of names; None: a random one.
        runtime_env: for all work of this job: a dict or `shoal.runtime_env.RuntimeEnv`.
        job_config: namespace, runtime environment and what actors are by default, for programs
            that give them so.
        local_mode: refused when true.
        **private: Ray's arguments with a leading underscore; unknown ones are refused.

    Raises:
        RuntimeError: connected already (unless `ignore_reinit_error`).
        ValueError, TypeError: an argument is wrong; names it.
        RuntimeEnvSetupError: a folder of `runtime_env` is too large, or cannot be brought.
        ConnectionError: nothing answers at the address.
    """
    if process.is_initialized():
        if ignore_reinit_error:
            return _context(process.get_runtime())
        raise RuntimeError(
            "shoal.init() was called already: call shoal.shutdown() first, or pass "
            "ignore_reinit_error=True"
        )
    _check_private(private, local_mode=local_mode)
    if job_config is not None and not isinstance(job_config, JobConfig):
        raise TypeError(f"job_config must be a JobConfig, not {job_config!r}")
    if namespace is not None and not isinstance(namespace, str):
        raise TypeError(f"namespace must be a text, not {namespace!r}")
    if namespace == "":
        raise ValueError("namespace must be a text that is not empty, or None for one of its own")
    job = job_config or JobConfig()
    namespace = namespace or job.ray_namespace
    runtime_env = runtime_env or job.runtime_env
    # Packed before anything starts: a wrong field or a missing folder costs nothing.
    archives = PackageArchives()
    environment = pack(runtime_env or {}, archives)
    environment.text()
    target = _target(address)
    node = {
        "num_cpus": num_cpus,
        "num_gpus": num_gpus,
        "resources": resources,
        "labels": labels,
        "object_store_memory": object_store_memory,
        "_prestart_workers": private.get("_prestart_workers"),
    }
    _check_node(node, target)
    if target is None:
        target = _start_local(node)
    try:
        runtime = connect_driver(
            target,
            namespace=namespace or os.environ.get(NAMESPACE_VARIABLE),
            log_to_driver=log_to_driver,
            detached_by_default=job.default_actor_lifetime == DETACHED,
            code_search_path=job.code_search_path,
            environment=environment,
            archives=archives,
        )
    except BaseException as error:
        _stop_local()
        from driver_client.exceptions import RpcError  # late: only failures need it

        if isinstance(error, RpcError):
            raise ConnectionError(str(error)) from None
        raise
    return _context(runtime)


def _check_private(private: dict[str, Any], *, local_mode: bool) -> None:
    if local_mode:
        raise ValueError("local_mode is not offered: a local cluster starts in well under a second")
    for name in private:
        if name not in _IGNORED and not name.startswith("_"):
            raise TypeError(f"init() has no argument {name!r}")


def _target(address: str | None) -> str | None:
    if address == "local":
        return None
    if address is None or address == "auto":
        named = os.environ.get(ADDRESS_VARIABLE) or None
        if named is None and address == "auto":
            raise ConnectionError(f'address="auto" needs {ADDRESS_VARIABLE}=host:port')
        address = named
    if address is None:
        return None
    host, colon, port = address.removeprefix("shoal://").removeprefix("ray://").rpartition(":")
    if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"address {address!r} is not host:port with a port in 1 .. 65535")
    return f"{host}:{port}"


def _check_node(node: dict[str, Any], target: str | None) -> None:
    given = [name for name, value in node.items() if value is not None]
    if target is not None and given:
        raise ValueError(
            f"{', '.join(given)}: only for a local cluster; {target} has its nodes already"
        )
    for name, resource in (
        ("num_cpus", "CPU"),
        ("num_gpus", "GPU"),
        ("object_store_memory", "object_store_memory"),
    ):
        if node[name] is not None:
            try:
                resource_rules.to_fixed(resource, node[name])
            except (TypeError, ValueError) as error:
                raise type(error)(f"{name}: {error}") from None
    option_rules.check({"resources": node["resources"]}, option_rules.TASK_OPTIONS, "init")
    labels: Any = node["labels"] or {}
    texts = is_dict(labels) and all(isinstance(text, str) for kv in labels.items() for text in kv)
    if not texts:
        raise TypeError(f"labels must be a dict of text to text, not {labels!r}")
    label_rules.check_labels(labels)


def _start_local(node: dict[str, Any]) -> str:
    global _local  # noqa: PLW0603 - the one local cluster of this process
    options = processes.AgentOptions(
        head=True,
        scheduler=True,
        num_cpus=node["num_cpus"],
        num_gpus=node["num_gpus"],
        resources=node["resources"] or {},
        labels=node["labels"] or {},
        object_store_memory=node["object_store_memory"],
        prestart=node["_prestart_workers"],
    )
    _local = processes.start_local_cluster(agent_options=options)
    return _local.gcs.address


def _stop_local() -> None:
    global _local
    local, _local = _local, None
    if local is not None:
        local.stop()


def _context(runtime: Runtime) -> ClientContext:
    facts = runtime.facts
    return ClientContext(
        {
            "address": facts.gcs_address,
            "gcs_address": facts.gcs_address,
            "node_id": facts.node_id.hex(),
            "node_ip_address": facts.own_address.rpartition(":")[0],
            "session_name": facts.session_name,
            "session_dir": str(default_temp_dir() / facts.session_name),
            "job_id": facts.job_id.hex(),
            "namespace": facts.namespace,
        }
    )


def shutdown(*, wait_for_processes: bool = False, _exiting_interpreter: bool = False) -> None:
    """Disconnects; ends the local cluster if `init` started one. Idempotent; also runs at exit.

    The processes of a local cluster are gone when it returns, whatever `wait_for_processes` is.
    """
    del wait_for_processes
    runtime = process.runtime_if_any()
    try:
        if runtime is not None and runtime.facts.is_driver:
            disconnect_driver(runtime)
    finally:
        if _exiting_interpreter:
            end_waiting_thread()
        _stop_local()


def is_initialized() -> bool:
    """Whether this process is connected."""
    return process.is_initialized()


def _auto_init() -> None:
    init()


process.auto_init = _auto_init
atexit.register(shutdown, _exiting_interpreter=True)
