"""Answers about groups: records, explanations, dry runs. Decides nothing, sends nothing."""

from __future__ import annotations

from cluster_api.v1 import placement_groups_pb2 as pg
from gcs_service.core.placement.choose import choose
from gcs_service.core.placement.explain import FITS, Explainer
from gcs_service.core.placement.group import CREATED, PENDING, REMOVED, REMOVING, Group
from gcs_service.core.placement.limits import (
    AMOUNTS_MAX,
    ASKED_NAMES_KEPT_MAX,
    EXPLAINERS_MAX,
    GROUPS_MAX,
    POOLS_MAX,
    REMOVED_GROUPS_MAX,
    ROOM_CLASSES_MAX,
    TIMERS_KEPT,
)
from gcs_service.core.placement.node_room import NodeRoom
from gcs_service.core.placement.plan import Plan, Shortfall, Wanted
from gcs_service.core.placement.request import Request, Shape, parse_request
from gcs_service.core.placement.scheduling import (
    DRAINING,
    INFEASIBLE,
    RESCHEDULING,
    Scheduling,
)
from gcs_service.core.placement.state import PlacementState
from gcs_service.core.placement.waiting import WaitClass
from gcs_service.limits import NODES_MAX

_NOBODYS_FAULT = (INFEASIBLE, DRAINING, RESCHEDULING)


class Questions:
    """Reads the state for people and for the autoscaler."""

    def __init__(self, state: PlacementState, scheduling: Scheduling) -> None:
        self._state = state
        self._scheduling = scheduling
        self._explainers: dict[tuple[Wanted, bytes], Explainer] = {}
        self._explained_versions = (-1, -1)

    def bounds(self) -> list[tuple[str, int, int]]:
        """Name, rows and cap of what is kept beside the groups."""
        state = self._state
        # A group has deadlines of two kinds, a node of three; see `Timers` for the rest.
        deadlines = TIMERS_KEPT + 2 * (2 * GROUPS_MAX + 3 * NODES_MAX)
        return [
            ("group_removed", len(state.removed), REMOVED_GROUPS_MAX),
            ("group_waiting", len(state.waiting), GROUPS_MAX),
            ("group_deadline", len(state.timers), deadlines),
            ("room_class", len(state.classes), ROOM_CLASSES_MAX),
            ("asked_name", state.asked.kept_count, ASKED_NAMES_KEPT_MAX),
            ("room_pool", state.index.pools_count + state.totals.pools_count, 2 * POOLS_MAX),
            ("request_shape", len(state.table), 2 * AMOUNTS_MAX),
            ("explainer", len(self._explainers), EXPLAINERS_MAX),
        ]

    # ---- records

    def record(self, group_id: bytes) -> pg.PlacementGroupRecord | None:
        """The group as of now, or the last record of one removed lately."""
        group = self._state.groups.get(group_id)
        if group is None:
            return self._state.removed.get(group_id)
        self._refresh_reason(group)
        return group.record()

    def records(self) -> list[pg.PlacementGroupRecord]:
        """Newest first; removed ones last."""
        groups = list(self._state.groups.values())
        for group in groups:
            self._refresh_reason(group)
        living = [group.record() for group in reversed(groups)]
        return [*living, *reversed(self._state.removed.values())]

    def _refresh_reason(self, group: Group) -> None:
        """Nodes that went away change what is possible without waking anyone."""
        wait = group.wait_class
        if wait is None or not wait.failed or wait.shortfall is None:
            return
        head = wait.head
        if wait.judged_version != self._state.totals.version:
            head.reason, head.message = self._scheduling.judge(wait, wait.shortfall)
        group.reason, group.message = head.reason, head.message

    def pending(self) -> list[pg.PlacementGroupSpec]:
        """Groups that wait for room, reduced to the bundles that have no node; oldest first."""
        every = self._state.groups.values()
        groups = [group for group in every if group.parked or group.wait_class is not None]
        groups.sort(key=lambda group: group.order)
        return [_reduced(group) for group in groups]

    # ---- explanations

    def waiting_texts(self, looks_max: int) -> dict[bytes, str]:
        """What `explain` says of waiting groups, without the token; equal ones share a look.

        Args:
            looks_max: nodes looked at in all; the oldest class is explained in any case.
        """
        texts: dict[bytes, str] = {}
        looks = 0
        for wait in self._state.waiting.classes():
            looks += len(self._state.nodes) * len(wait.shapes)
            if texts and looks > looks_max:
                break
            answer = self.explain(wait.head.group_id)
            text = answer.message.removeprefix(f"{answer.reason}: ")
            texts.update((group.group_id, text) for group in wait.groups)
        return texts

    def explain(self, group_id: bytes) -> pg.ExplainResponse:
        """Why the group waits, or where it is; `found` is False for an unknown one."""
        group = self._state.groups.get(group_id)
        if group is None:
            removed = self._state.removed.get(group_id)
            if removed is None:
                return pg.ExplainResponse(found=False)
            return pg.ExplainResponse(
                found=True, state=REMOVED, reason="removed", message="the group was removed"
            )
        self._refresh_reason(group)
        wanted = group.wanted()
        answer = self._answer(wanted, group.nodes, group)
        answer.state = group.state
        answer.overtaken = group.overtaken
        return answer

    def would_fit(self, spec: pg.PlacementGroupSpec) -> pg.ExplainResponse:
        """A dry run of `create`; nothing is reserved.

        Raises:
            ValueError: the spec contradicts itself.
        """
        request = parse_request(spec, self._state.table)
        self._state.asks(shape.amounts for shape in request.shapes)
        positions = tuple(range(len(request.shapes)))
        answer = self._answer(Wanted(request, positions), [None] * len(positions), None)
        answer.state = PENDING
        return answer

    def _answer(
        self, wanted: Wanted, nodes: list[NodeRoom | None], group: Group | None
    ) -> pg.ExplainResponse:
        result = self._choose(wanted, group)
        explainer = self._explainer(wanted, result, group)
        bundles = [
            explainer.bundle(index, shape, nodes[index])
            for index, shape in enumerate(wanted.request.shapes)
        ]
        reason, short_text = self._reason(wanted, result, group)
        fits = isinstance(result, Plan)
        return pg.ExplainResponse(
            found=True,
            reason=reason,
            message=explainer.sentence(reason, short_text),
            fits=fits,
            bundles=bundles,
            best_domain=explainer.best_domain(empty=reason == INFEASIBLE)
            if wanted.positions
            else None,
            # Nobody who goes would help a group that is too large for the empty cluster.
            blocked_by=[] if fits or reason in _NOBODYS_FAULT else explainer.blocked_by(),
        )

    def _explainer(
        self, wanted: Wanted, result: Plan | Shortfall, group: Group | None
    ) -> Explainer:
        """Kept while no node changes.

        A thousand timeouts of equal groups look at the nodes once.
        """
        state = self._state
        group_id = b"" if group is None else group.group_id
        if group is not None and group.wait_class is None:
            return Explainer(state, wanted, result, group_id)
        versions = (state.index.version, state.totals.version)
        if versions != self._explained_versions or len(self._explainers) >= EXPLAINERS_MAX:
            self._explained_versions = versions
            self._explainers.clear()
        key = (wanted, group_id if state.claimant is group else b"")
        found = self._explainers.get(key)
        if found is None:
            found = self._explainers[key] = Explainer(state, wanted, result, key[1])
        return found

    def _choose(self, wanted: Wanted, group: Group | None) -> Plan | Shortfall:
        """What the loop would get now; a group whose attempt is under way has its room already."""
        if not wanted.positions:
            return Plan([], wanted.domain)
        if group is not None and group.attempt is not None:
            domain = group.attempt.domain
            return Plan([holding.node for holding in group.attempt.holdings], domain)
        return choose(self._state.index, self._state.table, wanted)

    def _reason(
        self, wanted: Wanted, result: Plan | Shortfall, group: Group | None
    ) -> tuple[str, str]:
        if group is not None and group.state == REMOVING:
            return "removed", "its bundles are being given back"
        if group is not None and group.state == CREATED:
            return "placed", "every bundle has its node"
        if isinstance(result, Plan):
            if group is not None and group.attempt is not None:
                return FITS, "its nodes are preparing"
            return FITS, "there is room for every bundle"
        if group is not None and group.wait_class is not None and group.wait_class.failed:
            return group.reason, group.message
        wait = WaitClass(0, wanted, _shapes_of(wanted.request))
        return self._scheduling.judge(wait, result)


def _shapes_of(request: Request) -> tuple[Shape, ...]:
    return tuple(dict.fromkeys(request.shapes))


def _reduced(group: Group) -> pg.PlacementGroupSpec:
    spec = group.spec
    reduced = pg.PlacementGroupSpec()
    reduced.CopyFrom(spec)
    missing = group.missing
    if len(missing) < len(spec.bundles):
        del reduced.bundles[:]
        reduced.bundles.extend(spec.bundles[index] for index in missing)
    return reduced
