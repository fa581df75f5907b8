"""The library under measurement, and how each is started so that the comparison is fair.

Both run on the loopback address, without a dashboard and without usage reports. The peer would
replace 127.0.0.1 by the machine's outside address, where packets take another path.
"""

from __future__ import annotations

import importlib
import os
import socket
from typing import Any

LIBRARIES = ("shoal", "ray")
LOOPBACK = "127.0.0.1"
# A node of the peer waits until its agents have reported these ports.
AGENT_PORT_NAMES = (
    "metrics_agent_port",
    "metrics_export_port",
    "dashboard_agent_listen_port",
    "runtime_env_agent_port",
)
LEAN_ARGUMENTS = {
    "--dashboard_agent_command": "sleep 1000000",
    "--runtime_env_agent_command": "sleep 1000000",
    "--num_prestart_python_workers": "0",
}


def load(name: str) -> Any:
    """The imported module of a known library.

    Raises:
        ValueError: the name is not one of `LIBRARIES`.
    """
    if name not in LIBRARIES:
        raise ValueError(f"library {name!r} is not known; allowed: {', '.join(LIBRARIES)}")
    if name == "ray":
        return _load_ray()
    return importlib.import_module(name)


def start_local(
    library: Any,
    *,
    num_cpus: int,
    resources: dict[str, float] | None = None,
    workers_ahead: int | None = None,
) -> None:
    """Start a local cluster of one node and connect this process to it.

    `workers_ahead`: workers forked before they are asked for (the peer has no such setting).
    """
    options: dict[str, Any] = {"num_cpus": num_cpus, "log_to_driver": False}
    if workers_ahead is not None and library.__name__ == "shoal":
        options["_prestart_workers"] = workers_ahead
    if resources is not None:
        options["resources"] = resources
    if library.__name__ == "ray":
        options |= _ray_options() | {"address": "local", "_node_ip_address": LOOPBACK}
    library.init(**options)


def connect(library: Any, address: str) -> None:
    """Connect this process to a running cluster."""
    options: dict[str, Any] = {"address": address, "log_to_driver": False}
    if library.__name__ == "ray":
        options |= {"logging_level": "ERROR", "_node_ip_address": LOOPBACK}
    library.init(**options)


def cluster_options(library: Any) -> dict[str, Any]:
    """What the test cluster needs: ours without the hooks that let tests inject faults."""
    return {"inject_faults": False} if library.__name__ == "shoal" else {}


def node_options(library: Any) -> dict[str, Any]:
    """What `Cluster.add_node` needs besides the resources."""
    if library.__name__ != "ray":
        return {}
    return {"node_ip_address": LOOPBACK, "include_dashboard": False}


def submodule(library: Any, name: str) -> Any:
    """`library.name`, imported."""
    return importlib.import_module(f"{library.__name__}.{name}")


def _ray_options() -> dict[str, Any]:
    return {"include_dashboard": False, "logging_level": "ERROR"}


def _load_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    library = importlib.import_module("ray")
    services: Any = importlib.import_module("ray._private.services")
    services.resolve_ip_for_localhost = _unchanged
    services.get_node_ip_address = _loopback
    return library


def make_nodes_lean(library: Any) -> None:
    """Let the peer's nodes do without their two Python agents, so that many fit one machine.

    As shipped each node takes about 200 MB more and boots ten times slower; nothing a gang run
    measures goes through those agents. Their commands are replaced when a node is started.
    """
    if library.__name__ != "ray":
        return
    services: Any = importlib.import_module("ray._private.services")
    persist_port = importlib.import_module("ray._raylet").persist_port
    start_process = services.start_ray_process

    def start_lean(command: list[str], *rest: Any, **options: Any) -> Any:
        flags = {name: value for name, _, value in (each.partition("=") for each in command)}
        if "--dashboard_agent_command" in flags:
            for port_name in AGENT_PORT_NAMES:
                persist_port(flags["--session_dir"], flags["--node_id"], port_name, _free_port())
        return start_process([_lean_argument(each) for each in command], *rest, **options)

    services.start_ray_process = start_lean


def _lean_argument(argument: str) -> str:
    name, separator, _ = argument.partition("=")
    value = LEAN_ARGUMENTS.get(name)
    return argument if value is None else name + separator + value


def _free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as listener:
        listener.bind((LOOPBACK, 0))
        return listener.getsockname()[1]


def _unchanged(host: str) -> str:
    return host


def _loopback(_address: object = None) -> str:
    return LOOPBACK
