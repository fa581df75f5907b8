"""Rare, blocking questions to a GCS and its agents: for the CLI and the test cluster.

The runtime itself never goes this way; it has its own sessions.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

import grpc

from cluster_api.v1 import (
    agent_pb2,
    agent_pb2_grpc,
    autoscaler_pb2,
    autoscaler_pb2_grpc,
    gcs_pb2,
    gcs_pb2_grpc,
    node_session_pb2,
    types_pb2,
)
from cluster_api.v1 import placement_groups_pb2 as groups_pb2
from cluster_api.v1 import placement_groups_pb2_grpc as groups_pb2_grpc
from cluster_common import ids
from cluster_common.transport import auth, endpoints
from shoal.closing import Closing

T = TypeVar("T")

CALL_TIMEOUT_S = 5.0
"""For one question, reconnection attempts included (every 50-500 ms)."""

DRAIN_REASONS = {
    "preemption": node_session_pb2.DRAIN_REASON_PREEMPTION,
    "idle": node_session_pb2.DRAIN_REASON_IDLE_TERMINATION,
}


class ClusterCallError(RuntimeError):
    """A process of the cluster could not be asked, or did not answer as expected."""


class _Call(Protocol):
    def __call__(
        self, request: Any, *, timeout: float, metadata: Any, wait_for_ready: bool
    ) -> Any: ...


class GcsCalls(Closing):
    """Blocking client of one GCS. Close it, or use it as a context manager."""

    def __init__(self, address: str, *, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._channel = _channel(address)
        self._nodes: Any = gcs_pb2_grpc.NodeServiceStub(self._channel)
        self._actors: Any = gcs_pb2_grpc.ActorServiceStub(self._channel)
        self._status: Any = gcs_pb2_grpc.StatusServiceStub(self._channel)
        self._autoscaler: Any = autoscaler_pb2_grpc.AutoscalerStateServiceStub(self._channel)
        self._groups: Any = groups_pb2_grpc.PlacementGroupServiceStub(self._channel)

    def close(self) -> None:
        """Closes the connection."""
        self._channel.close()

    def cluster_info(self) -> gcs_pb2.GetClusterInfoResponse:
        """Identity of the cluster and the addresses to start from."""
        return self._ask(self._nodes.GetClusterInfo, gcs_pb2.GetClusterInfoRequest())

    def nodes(self, *, alive_only: bool = False, limit: int = 0) -> gcs_pb2.GetAllNodesResponse:
        """Node records, dead ones too unless `alive_only`."""
        request = gcs_pb2.GetAllNodesRequest(alive_only=alive_only, limit=limit)
        return self._ask(self._nodes.GetAllNodes, request)

    def wait_for_nodes(
        self, enough: Callable[[dict[bytes, types_pb2.NodeRecord]], bool], timeout_s: float
    ) -> bool:
        """Follows the node watch until `enough(nodes alive by id)`; False after `timeout_s`."""
        return _apart(lambda: self._nodes_came(enough, timeout_s))

    def _nodes_came(
        self, enough: Callable[[dict[bytes, types_pb2.NodeRecord]], bool], timeout_s: float
    ) -> bool:
        end = time.monotonic() + timeout_s
        alive: dict[bytes, types_pb2.NodeRecord] = {}
        call = self._nodes.WatchNodes(
            gcs_pb2.WatchNodesRequest(),
            timeout=timeout_s,
            metadata=auth.metadata(),
            wait_for_ready=True,
        )
        try:
            for change in call:
                _apply(alive, change)
                if enough(alive):
                    return True
        except grpc.RpcError as error:
            if time.monotonic() < end:
                raise _explained(error, f"the GCS at {self.address}", timeout_s) from error
        finally:
            call.cancel()
        return False

    def actors(self, *, limit: int = 0) -> gcs_pb2.GetAllActorsResponse:
        """Actor records, newest first."""
        return self._ask(self._actors.GetAllActors, gcs_pb2.GetAllActorsRequest(limit=limit))

    def groups(self, *, limit: int = 0) -> groups_pb2.GetAllGroupsResponse:
        """Placement group records, newest first."""
        return self._ask(self._groups.GetAllGroups, groups_pb2.GetAllGroupsRequest(limit=limit))

    def group(self, identity: bytes = b"", name: str = "", namespace: str = "") -> Any:
        """One group's record by id or name, or None."""
        request = groups_pb2.GetGroupRequest(
            placement_group_id=identity, name=name, namespace=namespace
        )
        answer: groups_pb2.GetGroupResponse = self._ask(self._groups.GetGroup, request)
        return answer.group if answer.found else None

    def explain(self, group_id: bytes) -> groups_pb2.ExplainResponse:
        """Why a group is where it is, or is not."""
        request = groups_pb2.ExplainRequest(placement_group_id=group_id)
        return self._ask(self._groups.Explain, request)

    def status(self, *, verbose: bool = False) -> gcs_pb2.GetStatusResponse:
        """Resources, demand, groups that wait, queues and tables."""
        request = gcs_pb2.GetStatusRequest(verbose=verbose)
        return self._ask(self._status.GetClusterStatus, request)

    def autoscaler_status(self) -> autoscaler_pb2.GetClusterStatusResponse:
        """The requested floor and what an autoscaler last said."""
        request = autoscaler_pb2.GetClusterStatusRequest()
        return self._ask(self._autoscaler.GetClusterStatus, request)

    def resource_state(self) -> autoscaler_pb2.ClusterResourceState:
        """Each node with the room that decisions see, and what waits for some."""
        request = autoscaler_pb2.GetClusterResourceStateRequest()
        return self._ask(self._autoscaler.GetClusterResourceState, request).cluster_resource_state

    def drain(self, node_id: bytes, reason: str, deadline_s: float, message: str = "") -> None:
        """Asks for a drain; returns when it is accepted and recorded.

        Raises:
            ValueError: unknown node or reason, or a refusal; says which.
        """
        if reason not in DRAIN_REASONS:
            raise ValueError(f"drain reason {reason!r} is not one of {', '.join(DRAIN_REASONS)}")
        request = gcs_pb2.DrainNodeRequest(
            node_id=node_id,
            reason=DRAIN_REASONS[reason],
            message=message,
            deadline_ms=int((time.time() + deadline_s) * 1_000),
        )
        answer: gcs_pb2.DrainNodeResponse = self._ask(self._nodes.DrainNode, request)
        if not answer.accepted:
            raise ValueError(answer.message or f"node {node_id.hex()} cannot be drained")

    def node_named(self, text: str) -> types_pb2.NodeRecord:
        """The node meant by a hex id, the start of one, or a node name; living ones first.

        Raises:
            ValueError: none, or several; lists what there is.
        """
        records = list(self.nodes().nodes)
        exact = [r for r in records if text in (r.node_id.hex(), r.node_name)]
        found = exact or [r for r in records if text and r.node_id.hex().startswith(text)]
        alive = [r for r in found if r.state != types_pb2.NODE_STATE_DEAD] or found
        if len(alive) == 1:
            return alive[0]
        known = ", ".join(r.node_id.hex()[:12] for r in (alive or records)[:10]) or "none"
        problem = "fits several nodes" if alive else "is not known"
        raise ValueError(f"node {text!r} {problem}: {known}")

    def _ask(self, call: _Call, request: Any) -> Any:
        return ask(call, request, f"the GCS at {self.address}", self._timeout_s)


def agent_ledger(address: str) -> agent_pb2.CheckLedgerResponse:
    """An agent's own check of its books."""
    with _channel(address) as channel:
        stub: Any = agent_pb2_grpc.AgentServiceStub(channel)
        request = agent_pb2.CheckLedgerRequest()
        return ask(stub.CheckLedger, request, f"the agent at {address}", CALL_TIMEOUT_S)


def agent_state(address: str, timeout_s: float = CALL_TIMEOUT_S) -> agent_pb2.GetAgentStateResponse:
    """An agent's workers, bundles, counters and the sizes of what it keeps."""
    with _channel(address) as channel:
        stub: Any = agent_pb2_grpc.AgentServiceStub(channel)
        request = agent_pb2.GetAgentStateRequest()
        return ask(stub.GetAgentState, request, f"the agent at {address}", timeout_s)


def ask(call: _Call, request: Any, whom: str, timeout_s: float) -> Any:
    """One blocking call that waits for the connection.

    Raises:
        ClusterCallError: unreachable within `timeout_s`, or refused; names the address.
        ValueError: the server found the request wrong.
    """
    try:
        return call(request, timeout=timeout_s, metadata=auth.metadata(), wait_for_ready=True)
    except grpc.RpcError as error:
        raise _explained(error, whom, timeout_s) from error


def node_id_from(text: str) -> bytes:
    """The bytes of a node id in hex.

    Raises:
        ValueError: it is none.
    """
    return ids.parse_hex(text, ids.NODE_ID_BYTES, "node id")


def _apart(work: Callable[[], T]) -> T:
    """Runs `work` in a thread of its own and waits for it.

    Signals are handled by the main thread: an interrupt while gRPC begins a stream would leave its
    channel waiting for that stream for ever, when it is closed.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - whoever waits gets it, whatever it is
            result.set_exception(error)

    threading.Thread(target=run, name="gcs-calls", daemon=True).start()
    return result.result()


def _channel(address: str) -> Any:
    return endpoints.make_blocking_channel(address)


def _apply(alive: dict[bytes, types_pb2.NodeRecord], change: gcs_pb2.WatchNodesResponse) -> None:
    if change.snapshot:
        alive.clear()
    for node in change.nodes:
        if node.state == types_pb2.NODE_STATE_DEAD:
            alive.pop(node.node_id, None)
        else:
            alive[node.node_id] = node


def _explained(error: Any, whom: str, timeout_s: float) -> Exception:
    code, details = error.code(), error.details() or ""
    if code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND):
        return ValueError(details)
    if code in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE):
        return ClusterCallError(
            f"{whom} did not answer within {timeout_s:g} s; is it running, and is this its address?"
        )
    return ClusterCallError(f"{whom} answered {code.name}: {details}")
