"""What a scenario is: a cluster, work, faults, and how long each phase lasts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from cluster_simulator.nemesis import Faults

if TYPE_CHECKING:
    from cluster_simulator.world import World


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """First `busy_ms` of work and faults, then calm until everything has settled."""

    name: str
    summary: str
    begin: Callable[[World], None]
    """Puts work into the world, once all agents joined."""
    faults: Faults = Faults()
    nodes: int = 8
    cpus: int = 4
    rack_size: int = 4
    schedulers: int = 1
    snapshot_delay_ms: int = 0
    """Agents hold their snapshots back this long."""
    busy_ms: int = 15_000
    calm_ms: int = 100_000
    exact_ledger: bool = False
    """Nothing but the GCS takes room: no prepare may be refused for want of it."""
