"""Makes the agents of a fleet: identities, addresses, connections."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from random import Random
from typing import Any

from grpc import aio

from cluster_api.v1 import node_session_pb2_grpc
from cluster_common import ids
from cluster_common import limits as common_limits
from cluster_common.transport.endpoints import bind, make_channel, make_server
from cluster_common.transport.task_keeper import TaskKeeper
from raylet_agent.core.agent import AgentCore
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.snapshots import node_labels
from raylet_agent.fleet.callees import Callees
from raylet_agent.fleet.fleet_agent import FleetAgent
from raylet_agent.fleet.fleet_host import FleetHost, PrepareCounts
from raylet_agent.fleet.held_snapshots import HeldSnapshots
from raylet_agent.fleet.settings import FleetSettings
from raylet_agent.fleet.traffic import CountedCall, Traffic
from raylet_agent.settings import AgentSettings
from raylet_agent.shell.host import now_ms
from raylet_agent.shell.log_pusher import LogPusher
from raylet_agent.shell.shared_stream import SharedStream

_HOSTS_PER_NET = 250


class FleetBuilder:
    """What all agents share; `agent` makes one.

    Args:
        port: on which each agent's own loopback address is reached.
    """

    def __init__(
        self, settings: FleetSettings, keeper: TaskKeeper, callees: Callees, port: int
    ) -> None:
        self.traffic = Traffic()
        self.prepares = PrepareCounts()
        self.channels: list[aio.Channel] = []
        self._settings = settings
        self._keeper = keeper
        self._callees = callees
        self._port = port
        self._logs = LogPusher(keeper)
        self._held = HeldSnapshots(settings.sync_delay_s) if settings.sync_delay_s else None
        self._hostname = socket.gethostname()
        self._agent_settings = _agent_settings(settings)
        self._connects: list[Callable[[], Any]] = []

    def agent(self, index: int) -> FleetAgent:
        """The agent with this number, not started yet.

        Raises:
            OSError: its port is taken.
        """
        settings = self._settings
        server: aio.Server | None = None
        if settings.leases:
            server = make_server()
            self._port = bind(server, host_of(settings.first + index), self._port)
        core = AgentCore(
            self._facts(index),
            settings.total,
            new_id=_new_worker_id,
            random=Random(index),  # noqa: S311 - a choice among equals, no secret
            ahead=0,
            now_ms=now_ms(),
        )
        host = FleetHost(
            core,
            self._agent_settings,
            self._keeper,
            self._logs,
            callees=self._callees,
            held=self._held,
            prepares=self.prepares,
        )
        timeout_s = settings.gcs_reconnect_timeout_s
        return FleetAgent(core, host, self._connect_of(index), server, timeout_s)

    def _facts(self, index: int) -> NodeFacts:
        settings = self._settings
        number = settings.first + index
        node_id = os.urandom(ids.NODE_ID_BYTES)
        labels = dict(settings.labels)
        if settings.rack_size:
            labels["rack"] = f"r{number // settings.rack_size}"
        return NodeFacts(
            node_id=node_id,
            address=f"{host_of(number)}:{self._port}",
            node_name=f"{settings.name}-{number}",
            hostname=self._hostname,
            labels=node_labels(labels, node_id),
            is_head=False,
            is_scheduler=index < settings.schedulers,
            gcs_address=settings.gcs_address,
            pid=os.getpid(),
            start_time_ms=time.time_ns() // 1_000_000,
            wall_offset_ms=time.time_ns() // 1_000_000 - now_ms(),
        )

    def _connect_of(self, index: int) -> Callable[[], Any]:
        shared = self._settings.connections
        if not shared or index < shared:
            channel = make_channel(
                self._settings.gcs_address,
                own_connection=True,
                keepalive_ms=common_limits.SESSION_KEEPALIVE_MS,
            )
            self.channels.append(channel)
            stub = node_session_pb2_grpc.NodeSessionServiceStub(channel)
            traffic = self.traffic

            def connect() -> CountedCall:
                return CountedCall(stub.Connect(), traffic)

            alone = not shared or self._settings.own_streams
            keeper = self._keeper
            self._connects.append(connect if alone else SharedStream(connect, keeper).connect)
        return self._connects[index % shared if shared else index]


def host_of(index: int) -> str:
    """A loopback address of its own for each agent: 127/8 has 16 million."""
    rest, last = divmod(index, _HOSTS_PER_NET)
    second, third = divmod(rest, _HOSTS_PER_NET)
    return f"127.{64 + second}.{third}.{1 + last}"


def _new_worker_id() -> bytes:
    return os.urandom(ids.OWNER_ID_BYTES)


def _agent_settings(settings: FleetSettings) -> AgentSettings:
    return AgentSettings(
        gcs_address=settings.gcs_address,
        host="127.0.0.1",
        reached_at="127.0.0.1",
        port=0,
        node_name="",
        total=settings.total,
        labels={},
        scheduler=False,
        head=False,
        prestart=0,
        session_name="",
        temp_dir="",
        port_file="",
        worker_entry="",
        preload=(),
        die_with_parent_fd=-1,
        log_level=settings.log_level,
        gcs_reconnect_timeout_s=settings.gcs_reconnect_timeout_s,
    )
