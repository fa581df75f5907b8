"""One placement group: what was asked, where it stands, who holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.holding import Holding
from gcs_service.core.placement.limits import (
    RETRY_DELAY_FACTOR,
    RETRY_DELAY_MAX_MS,
    RETRY_DELAY_MS,
)
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Wanted
from gcs_service.core.placement.request import Request

if TYPE_CHECKING:
    from gcs_service.core.placement.waiting import WaitClass

PENDING = pg.PLACEMENT_GROUP_STATE_PENDING
PREPARED = pg.PLACEMENT_GROUP_STATE_PREPARED
CREATED = pg.PLACEMENT_GROUP_STATE_CREATED
RESCHEDULING = pg.PLACEMENT_GROUP_STATE_RESCHEDULING
REMOVED = pg.PLACEMENT_GROUP_STATE_REMOVED
REMOVING = pg.PLACEMENT_GROUP_STATE_REMOVING


class Attempt:
    """One try to place the bundles that have no node: all or nothing."""

    __slots__ = (
        "committing",
        "deadline_ms",
        "domain",
        "holdings",
        "number",
        "one_phase",
        "waiting",
    )

    def __init__(self, number: int, domain: tuple[str, ...]) -> None:
        self.number = number
        self.domain = domain
        self.holdings: list[Holding] = []
        self.one_phase = False
        self.committing = False
        self.waiting = 0
        self.deadline_ms = 0


class Group:
    """Mutable state of one group. Records handed out are built anew by `record`."""

    __slots__ = (
        "attempt",
        "attempts",
        "created_now_ms",
        "created_wall_ms",
        "delay_ms",
        "domain",
        "group_id",
        "holdings",
        "last_attempt",
        "latency_ms",
        "longest_delay_ms",
        "message",
        "newer_than",
        "nodes",
        "order",
        "overtaken",
        "parked",
        "ready_wall_ms",
        "reason",
        "removal_attempts",
        "request",
        "retry_at_ms",
        "spec",
        "state",
        "tries",
        "version",
        "wait_class",
    )

    def __init__(self, spec: pg.PlacementGroupSpec, request: Request, order: int) -> None:
        self.spec = spec
        self.request = request
        self.order = order
        self.group_id = spec.placement_group_id
        self.state: pg.PlacementGroupState.ValueType = PENDING
        count = len(request.shapes)
        self.nodes: list[NodeRoom | None] = [None] * count
        self.attempts: list[int] = [0] * count
        self.domain: tuple[str, ...] = ()
        self.attempt: Attempt | None = None
        self.last_attempt = 0
        self.holdings: dict[tuple[bytes, int], Holding] = {}
        self.wait_class: WaitClass | None = None
        self.newer_than = -1
        self.parked = False
        """Waits for its old bundles to come back before it looks for new places."""
        self.reason = ""
        self.message = ""
        self.version = 0
        self.overtaken = 0
        self.delay_ms = 0.0
        self.longest_delay_ms = 0.0
        self.retry_at_ms = 0
        self.tries = 0
        self.removal_attempts = 0
        self.created_now_ms = 0
        self.created_wall_ms = 0
        self.ready_wall_ms = 0
        self.latency_ms = 0.0

    @property
    def missing(self) -> tuple[int, ...]:
        """Bundles without a node."""
        return tuple(index for index, node in enumerate(self.nodes) if node is None)

    def wanted(self) -> Wanted:
        """What to choose for."""
        stayed = tuple(node for node in self.nodes if node is not None)
        return Wanted(
            self.request,
            self.missing,
            stayed,
            self.domain if stayed else (),
            self.newer_than,
        )

    def back_off(self) -> int:
        """The delay before the next try, ms: 100 ms x 1.5 up to 1 s."""
        longer = self.delay_ms * RETRY_DELAY_FACTOR
        self.delay_ms = min(longer, RETRY_DELAY_MAX_MS) if self.delay_ms else float(RETRY_DELAY_MS)
        self.longest_delay_ms = max(self.longest_delay_ms, self.delay_ms)
        return int(self.delay_ms)

    def record(self) -> pg.PlacementGroupRecord:
        """The public record as of now."""
        return pg.PlacementGroupRecord(
            spec=self.spec,
            state=self.state,
            bundle_nodes=[b"" if node is None else node.node_id for node in self.nodes],
            bundle_addresses=["" if node is None else node.address for node in self.nodes],
            attempt=self.last_attempt,
            reason=self.reason,
            message=self.message,
            topology_assignment=dict(zip(self.request.packed_labels, self.domain, strict=False)),
            overtaken=self.overtaken,
            version=self.version,
            created_time_ms=self.created_wall_ms,
            ready_time_ms=self.ready_wall_ms,
            scheduling_attempts=self.tries,
            scheduling_latency_ms=self.latency_ms,
            removal_attempts=self.removal_attempts,
            highest_retry_delay_ms=self.longest_delay_ms,
            bundle_attempts=self.attempts,
        )
