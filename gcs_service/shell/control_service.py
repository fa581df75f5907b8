"""The running service: executors, server, sessions; `app` gives it a process."""

from __future__ import annotations

import asyncio
import random
import secrets
from importlib import metadata
from typing import Any

from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from cluster_api.v1 import autoscaler_pb2, gcs_pb2, node_session_pb2, placement_groups_pb2
from cluster_common import limits as common_limits
from cluster_common.transport import endpoints, faults
from cluster_common.transport.task_keeper import TaskKeeper
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.broadcast_table import BroadcastTable
from gcs_service.core.control_core import ControlCore
from gcs_service.core.demand_table import DemandTable
from gcs_service.core.kv_table import KvTable
from gcs_service.settings import GcsSettings
from gcs_service.shell import boot, clock
from gcs_service.shell.bounds_report import BoundsReport
from gcs_service.shell.core_host import CoreHost
from gcs_service.shell.demand_host import DemandHost
from gcs_service.shell.journal import Journal, Lane
from gcs_service.shell.kv_host import KvHost
from gcs_service.shell.loop_bridge import LoopBridge, StallMeter
from gcs_service.shell.node_broadcast import NodeBroadcast
from gcs_service.shell.reachability import Reachability
from gcs_service.shell.service_binding import ServiceBinder
from gcs_service.shell.services.actor_service import ActorService
from gcs_service.shell.services.autoscaler_service import AutoscalerStateService
from gcs_service.shell.services.group_service import PlacementGroupService
from gcs_service.shell.services.job_service import JobService
from gcs_service.shell.services.kv_service import KvService
from gcs_service.shell.services.node_service import NodeService
from gcs_service.shell.services.node_session_service import NodeSessionService
from gcs_service.shell.services.status_service import StatusService
from gcs_service.shell.session_hub import SessionHub
from gcs_service.shell.storage.protocol import Storage, StorageError


class ControlService:
    """One cluster's control service in this process, on the running loop.

    `failed` is set when the store is given up (somebody else writes to it, or too much waits for
    it): nothing more is acknowledged and the process should end. A store that is lost for a while
    makes the service read-only.
    """

    def __init__(self, settings: GcsSettings, storage: Storage) -> None:
        self.failed = asyncio.Event()
        self._settings = settings
        self._storage = storage
        self.tasks = TaskKeeper("gcs")
        loop = asyncio.get_running_loop()
        stalls = StallMeter()
        self._bridges = [LoopBridge(loop, stalls) for _ in range(4)]
        self._bridge, for_broadcast, for_kv, for_demand = self._bridges
        self._journal = Journal(storage, self._storage_failed)
        self.identity = boot.begin_epoch(storage, settings)
        self.hub = SessionHub()
        broadcast_table = BroadcastTable(views_to_all=settings.sync_scope == "all")
        self.broadcast = NodeBroadcast(broadcast_table, for_broadcast, self.hub)
        dice = random.Random(secrets.randbits(64))  # noqa: S311 - tie-breaking, no secret
        core = ControlCore(
            self.identity,
            dice,
            round(settings.ping_interval * 1_000),
            settings.history_rows or None,
        )
        demand_table = DemandTable(self.identity.first_revision, self.identity.session_name)
        demand_lane = Lane(self._journal, for_demand)
        self.demand = DemandHost(demand_table, demand_lane, for_demand)
        self._reachability = Reachability(self.tasks)
        self.kv = KvHost(KvTable(settings.kv_quota_bytes), Lane(self._journal, for_kv))
        self.host = CoreHost(
            core,
            Lane(self._journal, self._bridge),
            self.hub,
            self.broadcast,
            self._reachability,
            self.demand,
            self.kv,
        )
        self._executors = [
            self.host.executor,
            self.broadcast.executor,
            self.kv.executor,
            self.demand.executor,
            self._journal.executor,
        ]
        self._server = endpoints.make_server(
            message_bytes_max=common_limits.CONTROL_MESSAGE_BYTES_MAX
        )
        self.binder = ServiceBinder(
            self._server, self.identity.cluster_id.hex(), lambda: self._journal.problem
        )
        # The package ships no types.
        self._health: Any = vars(health)["aio"].HealthServicer()
        self._add_services()

    def _storage_failed(self, _error: StorageError) -> None:
        self._bridge.post(self.failed.set)

    def _add_services(self) -> None:
        host, hub, broadcast = self.host, self.hub, self.broadcast
        self._node_sessions = NodeSessionService(host, hub, broadcast)
        gcs = gcs_pb2.DESCRIPTOR.services_by_name
        sessions = node_session_pb2.DESCRIPTOR.services_by_name
        groups = placement_groups_pb2.DESCRIPTOR.services_by_name
        autoscaler = autoscaler_pb2.DESCRIPTOR.services_by_name
        version = metadata.version("shoal")
        bounds = BoundsReport(
            hub,
            broadcast,
            self.kv,
            self.demand,
            self._journal,
            self._reachability,
            self._executors,
            self._bridges,
        )
        status = StatusService(
            host,
            self.demand,
            bounds,
            self._executors,
            self._storage,
            self._journal,
            self._bridges,
            self.counters,
        )
        nodes = NodeService(host, hub, broadcast, version)
        autoscaling = AutoscalerStateService(self.demand, nodes.drain_node)
        bound = (
            (sessions["NodeSessionService"], self._node_sessions),
            (gcs["NodeService"], nodes),
            (gcs["KvService"], KvService(self.kv)),
            (gcs["JobService"], JobService(host)),
            (gcs["ActorService"], ActorService(host, hub)),
            (gcs["StatusService"], status),
            (groups["PlacementGroupService"], PlacementGroupService(host, hub)),
            (autoscaler["AutoscalerStateService"], autoscaling),
        )
        for descriptor, handler in bound:
            self.binder.add(descriptor, handler)
        add_health: Any = vars(health_pb2_grpc)["add_HealthServicer_to_server"]
        add_health(self._health, self._server)
        names = (*self.binder.names, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)

    async def start(self) -> int:
        """Loads the tables, starts the executors, serves. The bound port.

        Raises:
            OSError: the address cannot be bound.
        """
        rows = {table: self._storage.load(table) for table in tables.ALL_TABLES}
        self.kv.table.load(rows.pop(tables.KV))
        self.demand.table.load(rows.pop(tables.AUTOSCALER))
        core = self.host.core
        core.load(rows, clock.now())
        self.kv.forget_left_packages(core.needs_packages)
        nodes = core.membership.nodes
        self.broadcast.table.load(nodes.rows(alive_only=False, limit=limits.NODES_MAX))
        for executor in self._executors:
            executor.start()
        self.host.post(core.tick)  # carries out what loading decided
        port = endpoints.bind(self._server, self._settings.host, self._settings.port)
        faults.be(faults.GCS, port)
        await self._server.start()
        for name in ("", *self.binder.names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def stop(self) -> None:
        """Ends sessions, the server, then the executors; what was acknowledged is durable."""
        self._reachability.close()
        await self._health.enter_graceful_shutdown()
        self.hub.close_all()
        await self._server.stop(limits.STOP_GRACE_SECONDS)
        await self.tasks.close()
        loop = asyncio.get_running_loop()
        for executor in self._executors:
            await loop.run_in_executor(None, executor.stop)
        for bridge in self._bridges:
            bridge.close()
        self._storage.close()

    def counters(self) -> dict[str, int]:
        """Meters by name, for status and tests."""
        table = self.broadcast.table
        return dict(self.binder.counters) | {
            "sessions.open": len(self.hub),
            "sessions.items_out": self.hub.items_out,
            "node_sessions.frames_in": self._node_sessions.frames_in,
            "node_sessions.items_in": self._node_sessions.items_in,
            "watches.nodes": table.watchers_count,
            "subscriptions.node_changes": table.subscriptions,
            "views.out": table.views_out,
            "loop.stall_recent_us": self._bridge.stalls.recent_ns // 1_000,
            "storage.transactions": self._journal.transactions,
            "storage.rows_written": self._journal.rows_written,
            "storage.times_lost": self._journal.times_lost,
            "storage.rows_held": self._journal.held_rows,
            "liveness.silence_bound_ms": self.host.core.membership.liveness.silence_bound_ms,
            "liveness.verdicts_put_off": self.host.core.membership.liveness.verdicts_put_off,
        }
