"""One attempt to become a driver; what it made is undone when it fails or is given up."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import uuid
from typing import Any

import msgspec
from grpc import aio

from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_common import ids
from cluster_common import limits as common_limits
from cluster_common.transport import endpoints, faults
from driver_client import exceptions, limits
from driver_client.goodbye import finish_job, goodbye
from driver_client.home_agent import follow_home, home_node
from driver_client.shell.driver_hooks import RuntimeHooks
from driver_client.shell.function_store import FunctionStore
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.io_thread import IoThread
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.log_printer import print_worker_lines
from driver_client.shell.peer_service import PeerService
from driver_client.shell.process_facts import ProcessFacts
from driver_client.shell.runtime import Runtime
from driver_client.shell.verdict import follow_verdict


class ClusterFacts(msgspec.Struct, frozen=True):
    """What a driver learns when it connects."""

    cluster_id: bytes
    session_name: str
    agent_address: str
    node_id: bytes
    node_name: str
    labels: dict[str, str]


class Connecting:
    """`run` once; `undone` if that failed or was interrupted. Both run on the I/O thread."""

    def __init__(
        self,
        io: IoThread,
        gcs_address: str,
        *,
        namespace: str | None,
        log_to_driver: bool,
        runtime_env_json: str,
        connect_timeout_s: float,
    ) -> None:
        self.runtime: Runtime | None = None
        self._io = io
        self._gcs_address = gcs_address
        self._namespace = namespace
        self._log_to_driver = log_to_driver
        self._runtime_env_json = runtime_env_json
        self._connect_timeout_s = connect_timeout_s
        self._task: asyncio.Task[Any] | None = None
        self._link: GcsLink | None = None
        self._server: aio.Server | None = None
        self._job: asyncio.Future[bytes] | None = None

    async def run(self) -> Runtime:
        """The runtime of this process, known to the GCS and to its home agent.

        Raises:
            exceptions.RayError: see `connect_driver`.
        """
        self._task = asyncio.current_task()
        link = self._link = GcsLink(self._gcs_address)
        cluster = await _cluster_facts(link, self._connect_timeout_s)
        server = self._server = endpoints.make_server()
        port = endpoints.bind(server, host := _reachable_host(self._gcs_address), 0)
        faults.be(faults.DRIVER, port)
        facts = self._facts(cluster, f"{host}:{port}")
        # Not cancelled with this: a job that the GCS took must be ended by its id.
        self._job = asyncio.ensure_future(_add_job(link, facts))
        facts.job_id = await asyncio.shield(self._job)
        runtime = self.runtime = Runtime(self._io, facts, gcs=link)
        runtime.server = server
        hooks = RuntimeHooks(runtime, print_worker_lines)
        service = PeerService(self._io, runtime.ownership, FunctionStore(), None, hooks)
        rpc.add_CoreWorkerServiceServicer_to_server(service, server)
        await server.start()
        follow_home(runtime)
        follow_verdict(runtime)
        await _let_in(runtime.leases())
        return runtime

    async def undone(self) -> None:
        """Nothing of the attempt is left: job, sessions, server, channel."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait([self._task])
        if self.runtime is not None:
            await goodbye(self.runtime)
            return
        if self._server is not None:
            await self._server.stop(0)
        if self._link is not None:
            await self._end_job(self._link)
            await self._link.channel.close()

    async def _end_job(self, link: GcsLink) -> None:
        if self._job is None:
            return
        _, asked = await asyncio.wait([self._job], timeout=limits.FINISH_JOB_S)
        if asked:
            self._job.cancel()
        elif self._job.exception() is None:
            await finish_job(link, self._job.result())

    def _facts(self, cluster: ClusterFacts, own_address: str) -> ProcessFacts:
        return ProcessFacts(
            owner_id=secrets.token_bytes(ids.OWNER_ID_BYTES),
            cluster_id=cluster.cluster_id,
            gcs_address=self._gcs_address,
            agent_address=cluster.agent_address,
            own_address=own_address,
            node_id=cluster.node_id,
            session_name=cluster.session_name,
            is_driver=True,
            namespace=self._namespace or str(uuid.uuid4()),
            namespace_is_anonymous=self._namespace is None,
            driver_address=own_address,
            log_to_driver=self._log_to_driver,
            node_name=cluster.node_name,
            labels=cluster.labels,
            sys_path=tuple(_module_path()),
            runtime_env_json=self._runtime_env_json,
        )


async def _let_in(leases: LeaseClient) -> None:
    """Waits for the home agent, or for the next one when it dies meanwhile.

    Raises:
        exceptions.LocalRayletDiedError: none answers within `CONNECT_TIMEOUT_S`.
        exceptions.RaySystemError: it refuses this driver; says why.
    """
    if await leases.let_in(limits.CONNECT_TIMEOUT_S):
        return
    agent = f"the agent at {leases.home_address}"
    if leases.refusal:
        raise exceptions.RaySystemError(f"{agent} refused this driver: {leases.refusal}")
    trouble = f" ({leases.home.trouble})" if leases.home.trouble else ""
    raise exceptions.LocalRayletDiedError(
        f"{agent} did not answer in {limits.CONNECT_TIMEOUT_S:g} s{trouble}"
    )


async def _cluster_facts(link: GcsLink, connect_timeout_s: float) -> ClusterFacts:
    info = await link.call(
        link.nodes.GetClusterInfo,
        gcs.GetClusterInfoRequest(),
        timeout_s=connect_timeout_s,
        reconnect_s=connect_timeout_s,
    )
    link.belong_to(info.cluster_id)
    deadline = asyncio.get_running_loop().time() + limits.HOME_WAIT_S
    while True:
        answer = await link.call(link.nodes.GetAllNodes, gcs.GetAllNodesRequest(alive_only=True))
        node = home_node(answer.nodes)
        if node is not None:
            return ClusterFacts(
                info.cluster_id,
                info.session_name,
                node.address,
                node.node_id,
                node.node_name,
                dict(node.labels),
            )
        if asyncio.get_running_loop().time() >= deadline:
            raise exceptions.RaySystemError(
                f"the cluster at {link.address} has no node: start one with "
                f"`shoal start --address {link.address}`"
            )
        await asyncio.sleep(limits.HOME_POLL_S)


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
