"""Who this cluster is, and which life of its control service this is."""

from __future__ import annotations

import msgspec

REVISIONS_PER_EPOCH = 1 << 32


class ClusterIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """`epoch` counts the lives of the service from 1; the cluster id was made in the first.

    `node_settings` go to every agent in its welcome.
    """

    cluster_id: bytes
    epoch: int
    session_name: str
    start_wall_ms: int
    node_settings: dict[str, str]

    @property
    def first_revision(self) -> int:
        """Node revisions of this life are above all of earlier lives."""
        return self.epoch * REVISIONS_PER_EPOCH
