"""What a test ordered for single items of the agent's sessions: late, refused, lost.

Only made when the process was started with faults (`cluster_common.transport.faults`). An item that
is held leaves its stream: what comes after it overtakes it, as over a second way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import node_session_pb2 as n
from cluster_common.transport.faults import ProcessFaults

INJECTED = "injected"
MESSAGE = "a test let it fail"

_OF_ACTION = {
    n.BUNDLE_ACTION_PREPARE: ("prepare",),
    n.BUNDLE_ACTION_COMMIT: ("commit",),
    n.BUNDLE_ACTION_PREPARE_AND_COMMIT: ("prepare", "commit"),
    n.BUNDLE_ACTION_CANCEL: ("cancel",),
    n.BUNDLE_ACTION_RETURN: ("return_bundles",),
}
_ORDERS = {
    "ping": ("ping",),
    "view": ("view",),
    "drain": ("drain",),
    "start_detached_actor": ("actor_create",),
}
_REPORTS = {
    "snapshot": (("sync",), False),
    "demand": (("demand",), False),
    "ping_answer": (("ping",), True),
    "drain_answer": (("drain",), True),
    "detached_actor": (("actor_create",), True),
}
_LEASE_ANSWERS = ("grant", "redirect", "reject", "failed", "pending")


class Released(msgspec.Struct, frozen=True):
    """An item whose delay is over: no rule looks at it again."""

    item: n.AgentItem | a.LeaseItem


class SessionFaults:
    """The rules of this process applied to items."""

    def __init__(self, faults: ProcessFaults) -> None:
        self._faults = faults

    def order(
        self,
        item: n.GcsItem,
        deliver: Callable[[n.GcsItem], None],
        answer: Callable[[n.AgentItem], None],
    ) -> bool:
        """An item from the GCS; True: it does not go on now."""
        kind = item.WhichOneof("item") or ""
        kinds = _OF_ACTION.get(item.bundle.action, ()) if kind == "bundle" else _ORDERS.get(kind)
        if not kinds:
            return False
        about = item.view.node_id.hex() if kind == "view" else ""
        refusal = _refusal_of(item)
        refuse = None if refusal is None else lambda: answer(refusal)
        return self._faults.catch(kinds, lambda: deliver(item), refuse, about=about)

    def report(self, item: n.AgentItem, send: Callable[[Released], object]) -> bool:
        """An item to the GCS; True: it does not leave now."""
        kind = item.WhichOneof("item") or ""
        if kind == "bundle_answer":
            kinds, answer = _OF_ACTION.get(item.bundle_answer.action, ()), True
        elif kind in _REPORTS:
            kinds, answer = _REPORTS[kind]
        else:
            return False
        return self._faults.catch(kinds, lambda: send(Released(item)), answer=answer)

    def asked(
        self,
        items: Iterable[a.OwnerItem],
        deliver: Callable[[a.OwnerItem], None],
        answer: Callable[[a.LeaseItem], None],
    ) -> list[a.OwnerItem]:
        """Items of an owner; those that go on now."""
        return [item for item in items if not self._owner_item(item, deliver, answer)]

    def _owner_item(
        self,
        item: a.OwnerItem,
        deliver: Callable[[a.OwnerItem], None],
        answer: Callable[[a.LeaseItem], None],
    ) -> bool:
        kind = item.WhichOneof("item")
        if kind == "request":
            failed = a.LeaseFailed(
                lease_id=item.request.lease_id,
                reason=a.LEASE_FAILURE_CANCELLED,
                message=MESSAGE,
            )
            return self._faults.catch(
                ("lease_request",),
                lambda: deliver(item),
                lambda: answer(a.LeaseItem(failed=failed)),
            )
        if kind == "cancel":
            return self._faults.catch(("lease_cancel",), lambda: deliver(item))
        return False

    def answered(
        self, items: Iterable[a.LeaseItem | Released], send: Callable[[Released], object]
    ) -> list[a.LeaseItem]:
        """Answers to an owner; those that leave now."""
        leaving: list[a.LeaseItem] = []
        for item in items:
            if isinstance(item, Released):
                assert isinstance(item.item, a.LeaseItem)
                leaving.append(item.item)
            elif item.WhichOneof("item") not in _LEASE_ANSWERS or not self._held(item, send):
                leaving.append(item)
        return leaving

    def _held(self, item: a.LeaseItem, send: Callable[[Released], object]) -> bool:
        return self._faults.catch(("lease_request",), lambda: send(Released(item)), answer=True)


def _refusal_of(item: n.GcsItem) -> n.AgentItem | None:
    """What the agent would say if it could not do what it was told."""
    kind = item.WhichOneof("item")
    if kind == "bundle":
        command = item.bundle
        return n.AgentItem(
            bundle_answer=n.BundleAnswer(
                action=command.action,
                placement_group_id=command.placement_group_id,
                attempt=command.attempt,
                ok=False,
                reason=INJECTED,
                message=MESSAGE,
                indexes=[bundle.index for bundle in command.bundles],
            )
        )
    if kind == "start_detached_actor":
        command = item.start_detached_actor
        return n.AgentItem(
            detached_actor=n.DetachedActorEvent(
                actor_id=command.actor_id,
                incarnation=command.incarnation,
                kind=n.DETACHED_ACTOR_EVENT_KIND_REFUSED,
                message=MESSAGE,
            )
        )
    if kind == "drain":
        return n.AgentItem(drain_answer=n.DrainAnswer(accepted=False, message=MESSAGE))
    return None
