"""Settings of a fleet: one frozen record, checked before anything starts."""

from __future__ import annotations

import msgspec

from cluster_common.resources import Vector
from raylet_agent.fleet import limits


class FleetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What the composition root needs. Amounts in `total` are fixed point (1/10,000 units).

    Attributes:
        nodes: how many agents.
        first: number of the first one; a further fleet goes on where another one ended.
        connections: TCP connections that carry their sessions, shared evenly; 0: one each.
        own_streams: each agent has a stream of its own; else one for each connection carries all.
        rack_size: neighbours that share a label `rack`; 0: no such label.
        leases: each agent listens on a port of its own and grants leases; else none can be asked.
        schedulers: this many of the first agents have the scheduler role.
        sync_delay_s: snapshots are held back this long after the registration's.
        name: prefix of the node names.
    """

    gcs_address: str
    nodes: int
    first: int = 0
    connections: int = 100
    own_streams: bool = False
    rack_size: int = 18
    total: Vector
    labels: dict[str, str] = {}
    leases: bool = False
    schedulers: int = 0
    sync_delay_s: float = 0.0
    name: str = "fleet"
    log_level: str = "ERROR"
    gcs_reconnect_timeout_s: float = 60.0

    def check(self, descriptors: int) -> None:
        """Raises ValueError naming the wrong option and what is allowed.

        Args:
            descriptors: how many this process may open.
        """
        needed = limits.DESCRIPTORS_PER_LEASING_AGENT * self.nodes + self.connections
        if self.leases and needed + limits.DESCRIPTORS_SPARE > descriptors:
            raise ValueError(
                f"--nodes {self.nodes} with --leases needs {needed + limits.DESCRIPTORS_SPARE} "
                f"file descriptors, this process may open {descriptors}: start several fleets, "
                "each with its own --first"
            )
        for option, value, least, most in (
            ("--nodes", self.nodes, 1, limits.NODES_MAX),
            ("--first", self.first, 0, limits.FIRST_MAX),
            ("--connections", self.connections, 0, limits.NODES_MAX),
            ("--rack-size", self.rack_size, 0, limits.NODES_MAX),
            ("--schedulers", self.schedulers, 0, self.nodes),
            ("--sync-delay", self.sync_delay_s, 0, 86_400),
        ):
            if not least <= value <= most:
                raise ValueError(f"{option} {value} is not in {least} .. {most}")
        if "rack" in self.labels and self.rack_size:
            raise ValueError("--labels names rack; --rack-size 0 leaves that label to you")
