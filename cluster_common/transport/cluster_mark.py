"""Which cluster a caller belongs to, shown with every call, so that no other cluster answers it.

A GCS that lost its store, or another one, may listen at an address that processes of an earlier
cluster still know (FIELD_REPORTS O-15). Who does not know its cluster yet shows nothing.
"""

from __future__ import annotations

from typing import Any

from grpc import aio

from cluster_common.transport.auth import TokenChannel

_METADATA_KEY = "shoal-cluster"
_REFUSAL_START = "other_cluster: "


class MarkedChannel(TokenChannel):
    """A channel whose calls say which cluster this process belongs to, once it is known."""

    def __init__(self, channel: aio.Channel, cluster_id: bytes = b"") -> None:
        super().__init__(channel, ())
        self.belong_to(cluster_id)

    def belong_to(self, cluster_id: bytes) -> None:
        """From the next call on."""
        self._shown = ((_METADATA_KEY, cluster_id.hex()),) if cluster_id else ()


def refusal(context: Any, cluster_id: str) -> str:
    """Why a call is none of ours; empty when it is, or shows no cluster.

    Args:
        context: of the call, at the server.
        cluster_id: our own, hex.
    """
    for key, value in context.invocation_metadata() or ():
        if key == _METADATA_KEY and value != cluster_id:
            return f"{_REFUSAL_START}this is cluster {cluster_id}, you belong to {value}"
    return ""


def reason_of(error: aio.AioRpcError) -> str:
    """What a server of another cluster said; empty when the call failed for another reason."""
    details = error.details() or ""
    return details.removeprefix(_REFUSAL_START) if details.startswith(_REFUSAL_START) else ""
