"""Connects a driver, and ends its connection."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cluster_common.transport.descriptors import raise_descriptor_limit
from driver_client import limits, process
from driver_client.connecting import Connecting
from driver_client.goodbye import goodbye
from driver_client.shell.environment_texts import PackedEnvironment
from driver_client.shell.environments import order_ahead
from driver_client.shell.io_thread import IoThread
from driver_client.shell.package_archives import PackageArchives
from driver_client.shell.runtime import Runtime


def connect_driver(
    gcs_address: str,
    *,
    namespace: str | None = None,
    log_to_driver: bool = True,
    detached_by_default: bool = False,
    code_search_path: Sequence[str] = (),
    environment: PackedEnvironment | None = None,
    archives: PackageArchives | None = None,
    connect_timeout_s: float = limits.CONNECT_TIMEOUT_S,
) -> Runtime:
    """Makes this process a driver of the cluster at `gcs_address` (`host:port`).

    Args:
        gcs_address: of the cluster.
        namespace: of names; None: a random one.
        log_to_driver: print what workers print.
        detached_by_default: actors that say nothing about their lifetime are detached.
        code_search_path: folders in which workers look for modules before those of this process.
        environment: runtime environment of all work of the job.
        archives: what it was packed with; closed with the connection.
        connect_timeout_s: for the first answer.

    Raises:
        exceptions.RuntimeEnvSetupError: the environment's packages cannot be brought.
        exceptions.RpcError: the GCS cannot be reached within `connect_timeout_s`.
        exceptions.LocalRayletDiedError: its home agent does not answer.
        exceptions.RaySystemError: the cluster has no node, or its agent refuses this driver.
    """
    raise_descriptor_limit()
    io = IoThread("shoal-io")
    io.start()
    connecting = Connecting(
        io,
        gcs_address,
        namespace=namespace,
        log_to_driver=log_to_driver,
        runtime_env_json=environment.text() if environment is not None else "",
        connect_timeout_s=connect_timeout_s,
    )
    try:
        runtime = io.call(connecting.run())
        facts = runtime.facts
        facts.detached_by_default = detached_by_default
        facts.sys_path = (*map(os.path.abspath, code_search_path), *facts.sys_path)
        if environment is not None and environment.fields:
            _bring_environment(runtime, environment, archives)
        process.set_runtime(runtime)
    except BaseException:  # an interrupt too: no server, job or thread may stay
        _give_up(io, connecting)
        raise
    return runtime


def _give_up(io: IoThread, connecting: Connecting) -> None:
    process.set_runtime(None)
    runtime = connecting.runtime
    if runtime is not None:
        runtime.detach_hooks()
    io.close(connecting.undone())
    runtime = connecting.runtime
    if runtime is not None:
        runtime.environments.close()
        runtime.detach_hooks()


def _bring_environment(
    runtime: Runtime, environment: PackedEnvironment, archives: PackageArchives | None
) -> None:
    """The job's packages go to the home agent, which begins to make the environment."""
    environments = runtime.environments
    if archives is not None:
        environments.archives = archives
    environments.bring(environment.packages)
    order = order_ahead(runtime.facts.runtime_env_json, runtime.facts.job_id)
    if order is not None:
        runtime.io.post(lambda: runtime.leases().home.send(order))


def disconnect_driver(runtime: Runtime) -> None:
    """Ends the job: its leases, groups and owned actors go."""
    process.set_runtime(None)
    runtime.detach_hooks()
    runtime.io.close(goodbye(runtime))
    runtime.environments.close()
    runtime.detach_hooks()
