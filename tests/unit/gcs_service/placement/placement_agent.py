"""A model agent: one node's truth about its room, as bundle commands change it.

It refuses what does not fit, remembers cancelled attempts, and counts applied reservations.
"""

from __future__ import annotations

from cluster_api.v1 import node_session_pb2 as ns
from cluster_api.v1 import types_pb2 as t
from cluster_common.identity_resources import is_identity, without_identity

UNIT = 10_000


def units(amounts: dict[str, float]) -> dict[str, int]:
    return {name: round(amount * UNIT) for name, amount in amounts.items()}


def node_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class Agent:
    """One node's truth."""

    def __init__(self, name, total, labels):
        self.node_id = node_id(name)
        self.name = name
        self.total = units(total)
        self.free = dict(self.total)
        self.labels = labels
        self.version = 0
        self.applied = 0
        self.held: dict[tuple[bytes, int], dict[int, dict[str, int]]] = {}
        self.committed: set[tuple[bytes, int]] = set()
        self.cancelled: dict[bytes, int] = {}
        """Newest cancelled attempt by group."""
        self.draining = False
        self.alive = True
        self.refusals = 0
        self.singles: dict[str, int] = {}
        self.busy = False
        """Workers run in its bundles.

        What is given back is free, and answered, when they have ended.
        """
        self.ending: list[tuple[tuple[bytes, int], ns.BundleAnswer]] = []
        self.log: list[str] = []

    def snapshot(self):
        self.version += 1
        return ns.ResourceSnapshot(
            version=self.version,
            total=t.ResourceSet(amounts=without_identity(self.total)),
            available=t.ResourceSet(
                amounts={k: v for k, v in without_identity(self.free).items() if v}
            ),
            identity_used=t.ResourceSet(
                amounts={k: v - self.free[k] for k, v in self.total.items() if is_identity(k)}
            ),
            applied_reservations=self.applied,
            draining=self.draining,
            labels=self.labels,
        )

    def statement(self):
        return [
            ns.HeldBundle(
                placement_group_id=key[0],
                attempt=key[1],
                index=index,
                committed=key in self.committed,
                resources=t.ResourceSet(amounts=amounts),
            )
            for key, bundles in self.held.items()
            for index, amounts in bundles.items()
        ]

    def obey(self, command):
        key = (command.placement_group_id, command.attempt)
        self.log.append(f"{ns.BundleAction.Name(command.action)} {key[1]}")
        assert command.reservation_seq > self.applied, "numbers must grow on a stream"
        self.applied = command.reservation_seq
        reason = self._act(command, key)
        answer = ns.BundleAnswer(
            action=command.action,
            placement_group_id=key[0],
            attempt=key[1],
            ok=not reason,
            reason=reason,
            indexes=[bundle.index for bundle in command.bundles],
        )
        if command.action not in (ns.BUNDLE_ACTION_CANCEL, ns.BUNDLE_ACTION_RETURN):
            return answer
        if command.action == ns.BUNDLE_ACTION_CANCEL:
            self.cancelled[key[0]] = max(key[1], self.cancelled.get(key[0], 0))
        if self.busy and key in self.committed:
            self.ending.append((key, answer))
            return None
        self._release(key)
        return answer

    def start_single(self, sequence, amounts):
        """A lease of the GCS itself; whether it was taken."""
        assert sequence > self.applied, "numbers must grow on a stream"
        self.applied = sequence
        if any(self.free.get(name, 0) < amount for name, amount in amounts.items()):
            self.refusals += 1
            return False
        for name, amount in amounts.items():
            self.free[name] -= amount
            self.singles[name] = self.singles.get(name, 0) + amount
        return True

    def end_singles(self):
        for name, amount in self.singles.items():
            self.free[name] += amount
        self.singles = {}

    def end_workers(self):
        """Workers of returned bundles are gone: the answers that were waiting for it."""
        ended, self.ending = self.ending, []
        for key, _answer in ended:
            self._release(key)
        return [answer for _key, answer in ended]

    def _release(self, key):
        self.committed.discard(key)
        for amounts in self.held.pop(key, {}).values():
            for name, amount in amounts.items():
                self.free[name] += amount

    def _act(self, command, key):
        match command.action:
            case ns.BUNDLE_ACTION_PREPARE | ns.BUNDLE_ACTION_PREPARE_AND_COMMIT:
                reason = self._prepare(command, key)
                if not reason and command.action == ns.BUNDLE_ACTION_PREPARE_AND_COMMIT:
                    self.committed.add(key)
                return reason
            case ns.BUNDLE_ACTION_COMMIT:
                if key not in self.held:
                    return "stale_attempt"
                self.committed.add(key)
                return ""
            case _:
                return ""

    def _prepare(self, command, key):
        if key in self.held:
            return ""
        if key[1] <= self.cancelled.get(key[0], 0):
            return "stale_attempt"
        if self.draining:
            return "draining"
        need: dict[str, int] = {}
        for bundle in command.bundles:
            for name, amount in bundle.resources.amounts.items():
                need[name] = need.get(name, 0) + amount
        if any(self.free.get(name, 0) < amount for name, amount in need.items()):
            self.refusals += 1
            return "insufficient_free"
        for name, amount in need.items():
            self.free[name] -= amount
        self.held[key] = {b.index: dict(b.resources.amounts) for b in command.bundles}
        return ""
