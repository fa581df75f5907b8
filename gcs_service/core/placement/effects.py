"""What the placement core wants done, in order: persist, then send or answer.

An effect that follows a `PersistGroup` or `ForgetGroup` in one returned list must not leave the
process before that write is durable; an effect in front of it may. Sends to one node keep their
order across lists. Messages inside effects are never changed afterwards, so another thread may
serialize them.
"""

from __future__ import annotations

import msgspec

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import placement_groups_pb2 as pg


class PersistGroup(msgspec.Struct, frozen=True, gc=False):
    """Write the group's row (table `placement_group`, key = its id), replacing the earlier one."""

    record: pg.PlacementGroupRecord


class ForgetGroup(msgspec.Struct, frozen=True, gc=False):
    """Delete the group's row."""

    placement_group_id: bytes


class SendBundle(msgspec.Struct, frozen=True, gc=False):
    """Put the command into the node's session.

    Dropped silently if the node is not connected now.
    """

    node_id: bytes
    command: ns.BundleCommand


class GroupChanged(msgspec.Struct, frozen=True, gc=False):
    """Tell the watchers of this group (and its creator's session)."""

    record: pg.PlacementGroupRecord


class GroupAccepted(msgspec.Struct, frozen=True, gc=False):
    """Answer the creator: the group exists and survives a restart."""

    placement_group_id: bytes


class GroupRefused(msgspec.Struct, frozen=True, gc=False):
    """Answer the creator: nothing was made. Reasons: name_taken, bad_request, table_full."""

    placement_group_id: bytes
    reason: str
    message: str


class RemovalAccepted(msgspec.Struct, frozen=True, gc=False):
    """Answer the remover: the removal survives a restart (also for a group nobody knows)."""

    placement_group_id: bytes


Effect = (
    PersistGroup
    | ForgetGroup
    | SendBundle
    | GroupChanged
    | GroupAccepted
    | GroupRefused
    | RemovalAccepted
)
