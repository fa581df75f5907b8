"""Settings of the agent: one frozen record, checked before anything starts."""

from __future__ import annotations

import json
from typing import cast

import msgspec

from cluster_common import labels as label_rules
from cluster_common import limits as common_limits
from cluster_common import resources
from cluster_common.identity_resources import is_identity
from cluster_common.resources import Vector
from raylet_agent import limits

PORT_MAX = 65_535
PLAIN_RESOURCES = ("CPU", "GPU", "memory", "object_store_memory")
TUNABLE = ("ended_log_files", "environment_cache_mib", "gcs_reconnect_timeout_s", "stop_grace_s")
MAY_BE_ZERO = ("stop_grace_s",)
DEFAULT_ENTRY = "driver_client.worker_main:run_worker"
DEFAULT_PRELOAD = ("driver_client.worker_main", "shoal")


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the composition root needs. Amounts in `total` are fixed point (1/10,000 units).

    Attributes:
        via: address of an agent that relays the node session; empty: straight to the GCS.
        host: interface to listen on.
        reached_at: host in the address that others get, and interface of the workers.
        port: 0 picks a free one.
        prestart: workers forked at the start; -1: none, but some ahead once a lease was asked for.
        port_file: written as JSON {address, node_id, pid} once the GCS took the node in.
        worker_entry: `module:function` that a worker runs.
        preload: modules imported once, before workers are forked.
        stop_grace_s: after SIGTERM, for what runs to finish; 0 ends at once.
        ended_log_files: log files of workers that ended, the newest; older ones are deleted.
        environment_cache_mib: of runtime environments on the disk, as far as they are not in use.
        die_with_parent_fd: the process ends when this descriptor reaches its end; -1 none.
    """

    gcs_address: str
    host: str
    reached_at: str
    port: int
    node_name: str
    total: Vector
    labels: dict[str, str]
    scheduler: bool
    head: bool
    prestart: int
    session_name: str
    temp_dir: str
    port_file: str
    worker_entry: str
    preload: tuple[str, ...]
    die_with_parent_fd: int
    log_level: str
    via: str = ""
    gcs_reconnect_timeout_s: float = 60.0
    stop_grace_s: float = limits.STOP_DRAIN_S
    ended_log_files: float = limits.ENDED_LOG_FILES_MAX
    environment_cache_mib: float = limits.ENVIRONMENT_CACHE_MIB_DEFAULT


def check_address(what: str, address: str) -> str:
    """`host:port`, or ValueError saying what is wrong."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdigit() or not 1 <= int(port) <= PORT_MAX:
        raise ValueError(f"{what} {address!r} must be host:port with a port in 1 .. {PORT_MAX}")
    return address


def check_port(port: int) -> int:
    """0 .. 65535, or ValueError."""
    if not 0 <= port <= PORT_MAX:
        raise ValueError(f"--port {port} is not in 0 .. {PORT_MAX}")
    return port


def check_name(what: str, name: str) -> str:
    """A node or session name, or ValueError."""
    if len(name.encode()) > common_limits.NAME_BYTES_MAX or "/" in name or "\0" in name:
        raise ValueError(
            f"{what} {name!r} must have at most {common_limits.NAME_BYTES_MAX} bytes and no '/'"
        )
    return name


def check_entry(entry: str) -> str:
    """`module:function`, or ValueError."""
    module, colon, function = entry.partition(":")
    parts = [*module.split("."), function]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(f"--worker-entry {entry!r} must be module:function")
    return entry


def parse_labels(text: str) -> dict[str, str]:
    """`key=value,key=value`, or ValueError."""
    result: dict[str, str] = {}
    for part in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"--labels: {part!r} must be key=value; several are joined by commas")
        if key in result:
            raise ValueError(f"--labels: {key!r} is given twice")
        result[key] = value
    label_rules.check_labels(result)
    return result


def parse_total(
    *,
    num_cpus: float,
    num_gpus: float,
    memory: int,
    object_store_memory: int,
    custom: str,
) -> Vector:
    """All resources of the node, fixed point.

    Args:
        num_cpus: CPUs.
        num_gpus: GPUs, whole.
        memory: bytes.
        object_store_memory: bytes.
        custom: JSON object of further resources.

    Raises:
        ValueError: names the option and what is allowed.
    """
    if num_gpus != int(num_gpus):
        raise ValueError(f"--num-gpus {num_gpus} must be a whole number")
    try:
        loaded: object = json.loads(custom) if custom else {}
    except ValueError as error:
        raise ValueError(f"--resources is not JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise ValueError('--resources must be a JSON object such as {"disk": 2}')  # noqa: TRY004 - a wrong value of an option, reported as such
    amounts: dict[str, float] = {
        "CPU": num_cpus,
        "GPU": num_gpus,
        "memory": memory,
        "object_store_memory": object_store_memory,
    }
    for name, amount in cast("dict[str, float]", loaded).items():
        if name in PLAIN_RESOURCES:
            raise ValueError(f"--resources: {name} has an option of its own")
        if resources.is_group_name(name):
            raise ValueError(f"--resources: {name!r} is reserved for placement groups")
        if is_identity(name):
            raise ValueError(f"--resources: {name!r}: names with 'node:' are given to every node")
        amounts[name] = amount
    try:
        return resources.vector(amounts)
    except TypeError as error:
        raise ValueError(str(error)) from None


def parse_tuning(items: tuple[str, ...]) -> dict[str, float]:
    """`--set name=value`, or ValueError listing the names there are."""
    result: dict[str, float] = {}
    for item in items:
        name, equals, value = item.partition("=")
        if not equals or name not in TUNABLE:
            raise ValueError(
                f"--set {item!r} must be name=value with a name of: {', '.join(TUNABLE)}"
            )
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"--set {name} must be a number, not {value!r}") from None
        if not 0 <= number <= 86_400 or (number == 0 and name not in MAY_BE_ZERO):
            least = "at least 0" if name in MAY_BE_ZERO else "above 0"
            raise ValueError(f"--set {name} must be {least} and at most 86400, not {value!r}")
        result[name] = number
    return result
