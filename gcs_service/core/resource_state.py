"""The answer to `GetClusterResourceState`, put together from encoded rows."""

from __future__ import annotations

import msgspec

from cluster_api.v1 import autoscaler_pb2 as auto
from gcs_service.core.demand_table import DemandTable
from gcs_service.core.wire_bytes import bytes_tag, varint

_NODE_STATES_TAG = bytes_tag(auto.ClusterResourceState.NODE_STATES_FIELD_NUMBER)
_GROUPS_TAG = bytes_tag(auto.ClusterResourceState.PENDING_GANG_RESOURCE_REQUESTS_FIELD_NUMBER)
_STATE_TAG = bytes_tag(auto.GetClusterResourceStateResponse.CLUSTER_RESOURCE_STATE_FIELD_NUMBER)


class EncodedResponse(msgspec.Struct, frozen=True, gc=False):
    """A message that is bytes already; the transport asks for nothing else."""

    data: bytes

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name every message has
        """The bytes."""
        return self.data


def encode_state(table: DemandTable, now_ms: int) -> bytes:
    """A `ClusterResourceState` of this moment."""
    pieces = [_frame(table).SerializeToString()]
    for group in table.groups():
        pieces += _field(_GROUPS_TAG, group.encode())
    marks = table.marks()
    for node_id, row in table.nodes.items():
        pieces += _field(_NODE_STATES_TAG, row.encode(now_ms, marks.get(node_id, b"")))
    for _, encoded in table.dead:
        pieces += _field(_NODE_STATES_TAG, encoded)
    return b"".join(pieces)


def encode_response(table: DemandTable, now_ms: int) -> EncodedResponse:
    """A `GetClusterResourceStateResponse` of this moment."""
    return EncodedResponse(b"".join(_field(_STATE_TAG, encode_state(table, now_ms))))


def decode_state(table: DemandTable, now_ms: int) -> auto.ClusterResourceState:
    """The same as a message, where it is part of another one."""
    return auto.ClusterResourceState.FromString(encode_state(table, now_ms))


def _frame(table: DemandTable) -> auto.ClusterResourceState:
    """Everything but the nodes and groups."""
    state = auto.ClusterResourceState(
        cluster_resource_state_version=table.version,
        last_seen_autoscaler_state_version=table.autoscaling_state.autoscaler_state_version,
        pending_resource_requests=[
            auto.ResourceRequestByCount(
                request=auto.ResourceRequest(
                    resources_bundle=entry.resources, label_selector=entry.selector
                ),
                count=entry.count,
                infeasible=entry.infeasible,
            )
            for entry in table.entries()
        ],
        cluster_session_name=table.session_name,
    )
    if table.constraint.resource_requests:
        state.cluster_resource_constraints.append(table.constraint)
    return state


def _field(tag: bytes, value: bytes) -> tuple[bytes, bytes, bytes]:
    return tag, varint(len(value)), value
