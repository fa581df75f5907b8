"""Connects a driver: cluster, home agent, job, server. And says goodbye."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import uuid
from collections.abc import Coroutine, Sequence
from typing import Any

import msgspec

from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_api.v1 import types_pb2 as t
from cluster_common import ids
from cluster_common import limits as common_limits
from cluster_common.transport import endpoints, faults
from driver_client import exceptions, limits, process
from driver_client.shell.driver_hooks import RuntimeHooks
from driver_client.shell.environment_texts import PackedEnvironment
from driver_client.shell.environments import order_ahead
from driver_client.shell.function_store import FunctionStore
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.io_thread import IoThread
from driver_client.shell.log_printer import print_worker_lines, quiet_for_s
from driver_client.shell.package_archives import PackageArchives
from driver_client.shell.peer_service import PeerService
from driver_client.shell.process_facts import ProcessFacts
from driver_client.shell.runtime import Runtime
from driver_client.shell.verdict import follow_verdict

_NODES_WAIT_S = 20.0
_NODES_POLL_S = 0.02


class ClusterFacts(msgspec.Struct, frozen=True):
    """What a driver learns when it connects."""

    cluster_id: bytes
    session_name: str
    agent_address: str
    node_id: bytes
    node_name: str


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
        exceptions.RaySystemError: the cluster has no node.
    """
    io = IoThread("shoal-io")
    io.start()
    try:
        runtime, server = io.call(
            _connect(
                io,
                gcs_address,
                namespace,
                log_to_driver=log_to_driver,
                runtime_env_json=environment.text() if environment is not None else "",
                connect_timeout_s=connect_timeout_s,
            )
        )
    except BaseException:
        io.close(_nothing())
        raise
    runtime.server = server
    runtime.facts.detached_by_default = detached_by_default
    runtime.facts.sys_path = (*map(os.path.abspath, code_search_path), *runtime.facts.sys_path)
    if environment is not None and environment.fields:
        try:
            _bring_environment(runtime, environment, archives)
        except BaseException:
            disconnect_driver(runtime)
            raise
    process.set_runtime(runtime)
    return runtime


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
    runtime.io.close(_goodbye(runtime))
    runtime.environments.close()
    runtime.detach_hooks()


async def _nothing() -> None:
    return


async def _goodbye(runtime: Runtime) -> None:
    host = runtime.host_if_any
    if host is not None:
        await host.reporter.flushed(0.2)
    link = runtime.gcs()
    runtime.leases().finishing()
    try:
        request = gcs.FinishJobRequest(job_id=runtime.facts.job_id)
        await link.call(link.jobs.FinishJob, request, timeout_s=2.0, reconnect_s=0.0)
    except exceptions.RayError:
        pass  # the GCS is away: our agent's word about the lost driver ends the job
    await runtime.close_async("the driver called shutdown")
    await _last_output(runtime)
    if runtime.server is not None:
        await runtime.server.stop(0)


def _follow_home(runtime: Runtime) -> None:
    """When the home agent dies, the driver goes on with another one."""

    async def find(message: str) -> None:
        leases = runtime.leases()
        lost = leases.home_address
        deadline = asyncio.get_running_loop().time() + _NODES_WAIT_S
        while asyncio.get_running_loop().time() < deadline and not runtime.closed:
            link = runtime.gcs()
            request = gcs.GetAllNodesRequest(alive_only=True)
            answer = await link.call(link.nodes.GetAllNodes, request)
            node = _home_node([n for n in answer.nodes if n.address != lost])
            if node is not None:
                runtime.facts.agent_address = node.address
                runtime.facts.node_id = node.node_id
                leases.move_home(node.address)
                await runtime.environments.uploads.home_moved()
                return
            await asyncio.sleep(limits.RECONNECT_DELAY_MAX_S)
        leases.homeless(f"the agent at {lost} is gone ({message}) and the cluster has no other")

    runtime.home_lost = lambda message: _start(runtime, find(message))


def _start(runtime: Runtime, work: Coroutine[Any, Any, None]) -> None:
    runtime.io.keeper.start(work, "next home")


async def _last_output(runtime: Runtime) -> None:
    """What workers printed before they were ended is still on its way through their agents."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    if not runtime.facts.log_to_driver or not runtime.has_leases:
        return
    while loop.time() < start + limits.LAST_OUTPUT_MAX_S:
        quiet_s = min(loop.time() - start, quiet_for_s())
        if quiet_s >= limits.LAST_OUTPUT_QUIET_S:
            return
        await asyncio.sleep(limits.LAST_OUTPUT_QUIET_S - quiet_s)


async def _connect(
    io: IoThread,
    gcs_address: str,
    namespace: str | None,
    *,
    log_to_driver: bool,
    runtime_env_json: str,
    connect_timeout_s: float,
) -> tuple[Runtime, Any]:
    link = GcsLink(gcs_address)
    try:
        cluster = await _cluster_facts(link, connect_timeout_s)
    except BaseException:
        await link.channel.close()
        raise
    server = endpoints.make_server()
    port = endpoints.bind(server, host := _reachable_host(gcs_address), 0)
    faults.be(faults.DRIVER, port)
    facts = ProcessFacts(
        owner_id=secrets.token_bytes(ids.OWNER_ID_BYTES),
        cluster_id=cluster.cluster_id,
        gcs_address=gcs_address,
        agent_address=cluster.agent_address,
        own_address=f"{host}:{port}",
        node_id=cluster.node_id,
        session_name=cluster.session_name,
        is_driver=True,
        namespace=namespace or str(uuid.uuid4()),
        namespace_is_anonymous=namespace is None,
        driver_address=f"{host}:{port}",
        log_to_driver=log_to_driver,
        node_name=cluster.node_name,
        sys_path=tuple(_module_path()),
        runtime_env_json=runtime_env_json,
    )
    facts.job_id = await _add_job(link, facts)
    runtime = Runtime(io, facts, gcs=link)
    hooks = RuntimeHooks(runtime, print_worker_lines)
    service = PeerService(io, runtime.ownership, FunctionStore(), None, hooks)
    rpc.add_CoreWorkerServiceServicer_to_server(service, server)
    await server.start()
    _follow_home(runtime)
    follow_verdict(runtime)
    session = runtime.leases().home
    try:
        await asyncio.wait_for(session.welcomed.wait(), limits.CONNECT_TIMEOUT_S)
    except TimeoutError:
        raise exceptions.LocalRayletDiedError(
            f"the agent at {cluster.agent_address} did not answer in {limits.CONNECT_TIMEOUT_S:g} s"
        ) from None
    return runtime, server


async def _cluster_facts(link: GcsLink, connect_timeout_s: float) -> ClusterFacts:
    info = await link.call(
        link.nodes.GetClusterInfo,
        gcs.GetClusterInfoRequest(),
        timeout_s=connect_timeout_s,
        reconnect_s=connect_timeout_s,
    )
    deadline = asyncio.get_running_loop().time() + _NODES_WAIT_S
    while True:
        answer = await link.call(link.nodes.GetAllNodes, gcs.GetAllNodesRequest(alive_only=True))
        node = _home_node(list(answer.nodes))
        if node is not None:
            return ClusterFacts(
                info.cluster_id, info.session_name, node.address, node.node_id, node.node_name
            )
        if asyncio.get_running_loop().time() >= deadline:
            raise exceptions.RaySystemError(
                f"the cluster at {link.address} has no node: start one with "
                f"`shoal start --address {link.address}`"
            )
        await asyncio.sleep(_NODES_POLL_S)


def _home_node(nodes: list[t.NodeRecord]) -> t.NodeRecord | None:
    """The agent on this machine, the head's first; else the head's; else any."""
    alive = [node for node in nodes if node.state == t.NODE_STATE_ALIVE]
    if not alive:
        return None
    here = socket.gethostname()
    return min(alive, key=lambda n: (n.hostname != here, not n.is_head, n.start_time_ms))


def _reachable_host(gcs_address: str) -> str:
    """The address of ours from which the cluster is reached; loopback for a loopback cluster."""
    host = gcs_address.rpartition(":")[0]
    if host in common_limits.LOOPBACK_HOSTS:
        return "127.0.0.1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, 9))  # sends nothing: only asks the routing table
        return probe.getsockname()[0]


def _module_path() -> list[str]:
    return [os.path.abspath(path or ".") for path in sys.path]  # noqa: PTH100 - zip files stay


async def _add_job(link: GcsLink, facts: ProcessFacts) -> bytes:
    job = gcs.JobRecord(
        driver_id=facts.owner_id,
        driver_address=facts.own_address,
        namespace=facts.namespace,
        entrypoint=" ".join(sys.argv)[:1000],
        driver_pid=os.getpid(),
        runtime_env_json=facts.runtime_env_json,
        home_node_id=facts.node_id,
        start_time_ms=0,
    )
    answer = await link.call(link.jobs.AddJob, gcs.AddJobRequest(job=job))
    return answer.job_id
