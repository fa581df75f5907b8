"""AutoscalerStateService: what an autoscaler asks and says; names as in Ray's autoscaler v2."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import gcs_pb2 as g
from gcs_service import limits
from gcs_service.core.resource_state import EncodedResponse, decode_state, encode_response
from gcs_service.shell import clock
from gcs_service.shell.demand_host import DemandHost
from gcs_service.shell.service_binding import unless_refused

Drain = Callable[[g.DrainNodeRequest], Awaitable[g.DrainNodeResponse]]


class AutoscalerStateService:
    """`drain`: the node service's; the one RPC here that concerns the core."""

    def __init__(self, demand: DemandHost, drain: Drain) -> None:
        self._demand = demand
        self._table = demand.table
        self._drain = drain

    async def get_cluster_resource_state(
        self, request: auto.GetClusterResourceStateRequest
    ) -> EncodedResponse:
        """One versioned snapshot; waits for another version than the seen one if asked to."""
        if request.wait_ms > 0:
            wait_s = min(request.wait_ms, limits.DEMAND_WAIT_MS_MAX) / 1_000
            seen = request.last_seen_cluster_resource_state_version
            unless_refused(await self._demand.changed(seen, wait_s))
        return await self._demand.ask(lambda: encode_response(self._table, clock.now().mono_ms))

    async def report_autoscaling_state(
        self, request: auto.ReportAutoscalingStateRequest
    ) -> auto.ReportAutoscalingStateResponse:
        """Kept in memory for status; an older one than the known changes nothing."""
        kept = await self._demand.ask(
            lambda: self._table.report_autoscaling(request.autoscaling_state)
        )
        return auto.ReportAutoscalingStateResponse(kept=kept)

    async def report_cluster_config(
        self, request: auto.ReportClusterConfigRequest
    ) -> auto.ReportClusterConfigResponse:
        """Durable when answered."""
        work = self._table.report_config
        unless_refused(await self._demand.ask(lambda: work(request.cluster_config)))
        return auto.ReportClusterConfigResponse()

    async def request_cluster_resource_constraint(
        self, request: auto.RequestClusterResourceConstraintRequest
    ) -> auto.RequestClusterResourceConstraintResponse:
        """Durable when answered."""
        work = self._table.request_constraint
        unless_refused(await self._demand.ask(lambda: work(request.cluster_resource_constraint)))
        return auto.RequestClusterResourceConstraintResponse()

    async def get_cluster_status(
        self, _request: auto.GetClusterStatusRequest
    ) -> auto.GetClusterStatusResponse:
        """What the cluster wants and what the autoscaler last said, as of one moment."""

        def look() -> auto.GetClusterStatusResponse:
            table = self._table
            return auto.GetClusterStatusResponse(
                autoscaling_state=table.autoscaling_state,
                cluster_resource_state=decode_state(table, clock.now().mono_ms),
                cluster_config=table.cluster_config,
            )

        return await self._demand.ask(look)

    async def drain_node(self, request: g.DrainNodeRequest) -> g.DrainNodeResponse:
        """As `NodeService.DrainNode`."""
        return await self._drain(request)
