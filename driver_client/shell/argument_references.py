"""Top-level references among a call's arguments, as they travel: with their values."""

from __future__ import annotations

from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

from cluster_api.v1 import core_worker_pb2 as pb
from driver_client.core.call import CallExtra
from driver_client.object_ref import entry_of


def add_references(
    to: RepeatedCompositeFieldContainer[pb.ArgumentReference], extra: CallExtra
) -> None:
    """Adds the arguments that are references, which are complete by now."""
    for argument, ref in extra.arguments:
        entry = entry_of(ref)
        to.add(
            argument=argument,
            object_id=entry.object_id,
            owner_address=entry.owner_address,
            value=entry.data,
            inlined=True,
        )
