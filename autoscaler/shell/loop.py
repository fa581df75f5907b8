"""The loop: woken by a change of demand, it decides, buys, drains, gives back, and reports.

It keeps no state that it could not read again: nodes and demand are the GCS's, instances the
provider's. What is under way (a node that is being drained) shows in both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import grpc

from autoscaler import limits
from autoscaler.core.config import AutoscalerConfig
from autoscaler.core.decide import decide
from autoscaler.core.wants import Decision, Gang, Shape
from autoscaler.shell.gcs import Gcs
from autoscaler.shell.provider import Instance, Provider, ProviderError
from autoscaler.shell.reading import read_wants
from cluster_api.v1 import autoscaler_pb2 as auto
from cluster_api.v1 import types_pb2 as t
from cluster_common.transport.logs import get_logger

log = get_logger()
T = TypeVar("T")


def now_ms() -> int:
    """Monotonic time."""
    return time.monotonic_ns() // 1_000_000


class AutoscalerLoop:
    """One cluster, one configuration, one provider.

    Args:
        make_provider: called once the cluster's session name is known.
    """

    def __init__(
        self, config: AutoscalerConfig, gcs: Gcs, make_provider: Callable[[str], Provider]
    ) -> None:
        self._config = config
        self._gcs = gcs
        self._make_provider = make_provider
        self._provider: Provider | None = None
        self._seen_version = 0
        self._report_version = time.time_ns() // 1_000_000
        self._told: object = None
        self._blocked_until_ms: dict[str, int] = {}
        self._failed: list[auto.FailedInstanceRequest] = []
        self._config_told = False
        self._wait_s = 0.0

    async def run(self) -> None:
        """Until cancelled."""
        away = False
        while True:
            try:
                await self.step()
                if away:
                    log.info("gcs_is_back", address=self._gcs.address)
                away = False
                await asyncio.sleep(limits.STEP_INTERVAL_S)
            except grpc.RpcError as error:
                if error.code() == grpc.StatusCode.UNAUTHENTICATED:
                    raise
                if not away:
                    log.warning("gcs_is_away", address=self._gcs.address, why=error.code().name)
                # A GCS of a later life may have lost nothing, but its version is another one.
                away, self._config_told, self._wait_s = True, False, 0.0
                await asyncio.sleep(limits.RETRY_S)

    async def close(self) -> None:
        """Ends what the provider started."""
        if self._provider is not None:
            await self._provider.close()

    async def step(self) -> None:
        """One look and everything that follows from it."""
        state = await self._gcs.state(self._seen_version, self._wait_s)
        self._seen_version = state.cluster_resource_state_version
        if self._provider is None:
            self._provider = self._make_provider(state.cluster_session_name)
        if not self._config_told:
            await self._gcs.report_config(self._config)
            self._config_told = True
        starting = await self._settle_instances(self._provider, state)
        decision = decide(self._allowed(), read_wants(self._config, state, starting))
        await self._launch(self._provider, decision)
        await self._release(self._provider, state, decision)
        await self._report(self._provider, state, decision)
        self._wait_s = self._patience(state)

    async def _settle_instances(
        self, provider: Provider, state: auto.ClusterResourceState
    ) -> list[Instance]:
        """Instances that have no node yet; what failed or died is given back."""
        alive: set[str] = set()
        dead: set[str] = set()
        for node in state.node_states:
            (dead if node.status == auto.NODE_STATUS_DEAD else alive).add(node.instance_id)
        starting: list[Instance] = []
        for instance in provider.instances():
            identity = instance.instance_id
            late = now_ms() - instance.launched_ms > limits.LAUNCH_TIMEOUT_S * 1_000
            if identity in alive:
                continue
            if identity in dead or instance.failure:
                if identity not in dead:
                    self._note_failure(instance, instance.failure)
                await provider.terminate(identity)
            elif late:
                self._note_failure(instance, "it did not join the cluster in time")
                await provider.terminate(identity)
            else:
                starting.append(instance)
        return starting

    def _note_failure(self, instance: Instance, why: str) -> None:
        log.warning("launch_failed", instance=instance.instance_id, reason=why)
        self._blocked_until_ms[instance.node_type] = now_ms() + int(limits.LAUNCH_BACKOFF_S * 1_000)
        failed = auto.FailedInstanceRequest(
            ray_node_type_name=instance.node_type,
            count=1,
            reason=why,
            failed_ts_ms=time.time_ns() // 1_000_000,
        )
        self._failed = [*self._failed, failed][-limits.FAILURES_TOLD_MAX :]

    def _allowed(self) -> AutoscalerConfig:
        """The configuration without node types whose last launch failed a moment ago."""
        blocked = {name for name, until_ms in self._blocked_until_ms.items() if until_ms > now_ms()}
        if not blocked:
            return self._config
        types = {name: one for name, one in self._config.node_types.items() if name not in blocked}
        return AutoscalerConfig(self._config.provider, self._config.idle_timeout_ms, types)

    async def _launch(self, provider: Provider, decision: Decision) -> None:
        budget = limits.LAUNCHES_PER_STEP_MAX
        for name, count in decision.launch.items():
            chosen = min(count, budget)
            if not chosen:
                continue
            budget -= chosen
            log.info("launching", node_type=name, count=chosen)
            try:
                await provider.launch(self._config.node_types[name], chosen)
            except ProviderError as error:
                log.error("launch_refused", node_type=name, reason=str(error))  # noqa: TRY400 - the reason is the whole story
                self._note_failure(Instance("", name, now_ms()), str(error))

    async def _release(
        self, provider: Provider, state: auto.ClusterResourceState, decision: Decision
    ) -> None:
        owned = {instance.instance_id for instance in provider.instances()}
        for node in decision.release:
            if node.instance_id in owned:
                log.info("draining", node=node.node_id.hex(), idle_ms=node.idle_ms)
                await self._gcs.drain_idle(node.node_id)
        for node in state.node_states:
            drained = node.status == auto.NODE_STATUS_DRAINING and node.drain_accepted
            if drained and node.instance_id in owned and _is_empty(node):
                log.info("terminating", node=node.node_id.hex(), instance=node.instance_id)
                await provider.terminate(node.instance_id)

    async def _report(
        self, provider: Provider, state: auto.ClusterResourceState, decision: Decision
    ) -> None:
        alive = {node.instance_id for node in state.node_states}
        pending = [
            auto.PendingInstance(
                instance_id=one.instance_id, ray_node_type_name=one.node_type, details="starting"
            )
            for one in provider.instances()
            if one.instance_id not in alive and not one.failure
        ]
        said = auto.AutoscalingState(
            pending_instances=pending,
            infeasible_resource_requests=[
                _request(shape) for shape in _first(decision.infeasible_shapes)
            ],
            infeasible_gang_resource_requests=[
                _gang_request(gang) for gang in _first(decision.infeasible_gangs)
            ],
            failed_instance_requests=self._failed,
            autoscaling_status=auto.AUTOSCALING_STATUS_RUNNING,
        )
        if said == self._told:
            return
        self._report_version += 1
        full = auto.AutoscalingState()
        full.CopyFrom(said)
        full.autoscaler_state_version = self._report_version
        full.last_seen_cluster_resource_state_version = self._seen_version
        await self._gcs.report(full)
        self._told = said

    def _patience(self, state: auto.ClusterResourceState) -> float:
        """How long nothing has to happen if nothing changes: until the next node is idle enough."""
        waits = [limits.POLL_S]
        for node in state.node_states:
            if node.status == auto.NODE_STATUS_IDLE and node.instance_id:
                left_ms = self._config.idle_timeout_ms - node.idle_duration_ms
                if left_ms > 0:
                    waits.append(left_ms / 1_000 + 0.01)
        blocked = [until - now_ms() for until in self._blocked_until_ms.values()]
        waits += [left_ms / 1_000 for left_ms in blocked if left_ms > 0]
        return min(waits)


def _is_empty(node: auto.ClusterNodeState) -> bool:
    total = node.total_resources.amounts
    return all(node.available_resources.amounts[name] == total[name] for name in total)


def _first(rows: Iterable[T]) -> list[T]:
    return list(rows)[: limits.INFEASIBLE_TOLD_MAX]


def _request(shape: Shape) -> auto.ResourceRequest:
    return auto.ResourceRequest(resources_bundle=t.ResourceSet(amounts=shape.amounts))


def _gang_request(gang: Gang) -> auto.GangResourceRequest:
    return auto.GangResourceRequest(
        placement_group_id=gang.gang_id,
        requests=[_request(bundle) for bundle in gang.bundles],
        strategy=gang.strategy,
        details="no set of nodes within the maxima of the node types holds it as a whole",
    )
