"""The GCS as the autoscaler sees it: a few unary calls on one channel."""

from __future__ import annotations

from typing import Any

import grpc

from autoscaler import limits
from autoscaler.core.config import AutoscalerConfig
from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import autoscaler_pb2_grpc
from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.endpoints import make_channel


class Gcs:
    """Calls raise `grpc.RpcError`; the loop decides what that means."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._channel = make_channel(address)
        self._stub: Any = autoscaler_pb2_grpc.AutoscalerStateServiceStub(self._channel)

    async def state(self, seen_version: int, wait_s: float) -> auto.ClusterResourceState:
        """The demand, as soon as its version is another one than `seen_version`."""
        request = auto.GetClusterResourceStateRequest(
            last_seen_cluster_resource_state_version=seen_version, wait_ms=int(wait_s * 1_000)
        )
        timeout_s = wait_s + limits.CALL_TIMEOUT_S
        answer = await self._stub.GetClusterResourceState(request, timeout=timeout_s)
        return answer.cluster_resource_state

    async def report(self, state: auto.AutoscalingState) -> None:
        """What the autoscaler is doing, for status."""
        request = auto.ReportAutoscalingStateRequest(autoscaling_state=state)
        await self._stub.ReportAutoscalingState(request, timeout=limits.CALL_TIMEOUT_S)

    async def report_config(self, config: AutoscalerConfig) -> None:
        """The node types, durable at the GCS."""
        message = auto.ClusterConfig(
            idle_timeout_ms=config.idle_timeout_ms,
            node_group_configs=[
                auto.NodeGroupConfig(
                    name=one.name,
                    resources=t.ResourceSet(amounts=one.resources),
                    labels=one.labels,
                    min_count=one.min_nodes,
                    max_count=one.max_nodes,
                )
                for one in config.node_types.values()
            ],
        )
        request = auto.ReportClusterConfigRequest(cluster_config=message)
        await self._stub.ReportClusterConfig(request, timeout=limits.CALL_TIMEOUT_S)

    async def drain_idle(self, node_id: bytes) -> bool:
        """Asks that nothing new starts on an idle node; False when it is gone already.

        The agent may still decline, if work came meanwhile: the node then runs on.
        """
        request = g.DrainNodeRequest(
            node_id=node_id,
            reason=ns.DRAIN_REASON_IDLE_TERMINATION,
            message="idle for longer than the autoscaler's time-out",
        )
        try:
            await self._stub.DrainNode(request, timeout=limits.CALL_TIMEOUT_S)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return False
            raise
        return True

    async def close(self) -> None:
        """Closes the channel."""
        await self._channel.close()
