"""Items of node sessions as they stand in a frame: made once, however many streams they go to.

A frame is the concatenation of its items (protobuf: a repeated field is its elements, each with tag
and length), so a fan-out neither copies nor serializes anything per stream.
"""

from __future__ import annotations

from typing import Any

from cluster_api.v1 import node_session_pb2 as ns
from gcs_service.core.wire_bytes import bytes_tag, varint

_ITEMS_TAG = bytes_tag(ns.GcsFrame.ITEMS_FIELD_NUMBER)


def framed(item: Any) -> Any:
    """The bytes of a `GcsItem` within its frame; what goes to other streams passes as it is."""
    if type(item) is not ns.GcsItem:
        return item
    body = item.SerializeToString()
    return _ITEMS_TAG + varint(len(body)) + body
