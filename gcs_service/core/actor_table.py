"""Records of actors, for names and lists. Who drives an actor: its owner, or `detached_actors`.

A name belongs to the id that holds it, so the end of an earlier holder can never free a later one;
it is free again in the step that writes the death (FIELD_REPORTS O-11).
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster_api.v1 import types_pb2 as t
from gcs_service import limits
from gcs_service.core import tables
from gcs_service.core.tables import Write


class ActorTable:
    """Newest record of each actor. Records are replaced, never changed.

    The newest dead ones are kept for lists, `dead_max` of them.

    Invariants: every name's holder is known and not dead; indexes hold living actors only.
    """

    def __init__(self, dead_max: int | None = None) -> None:
        self._dead_max = dead_max
        self._records: dict[bytes, t.ActorRecord] = {}
        self._names: dict[tuple[str, str], bytes] = {}
        self._dead: dict[bytes, None] = {}
        self._by_owner: dict[bytes, dict[bytes, None]] = {}
        self._by_node: dict[bytes, dict[bytes, None]] = {}
        self._owners_on: dict[bytes, dict[bytes, None]] = {}
        self.by_state: dict[int, int] = {}

    @property
    def dead_max(self) -> int:
        """Dead ones kept."""
        return self._dead_max or limits.ACTORS_DEAD_MAX

    def __len__(self) -> int:
        return len(self._records)

    def get(self, actor_id: bytes) -> t.ActorRecord | None:
        """Newest record, also of a dead actor while it is kept."""
        return self._records.get(actor_id)

    def by_name(self, namespace: str, name: str) -> t.ActorRecord | None:
        """Who holds the name."""
        actor_id = self._names.get((namespace, name))
        return self._records[actor_id] if actor_id is not None else None

    def names(self, namespace: str | None) -> list[tuple[str, str]]:
        """(namespace, name) pairs in order; None: of all namespaces."""
        return sorted(pair for pair in self._names if namespace is None or pair[0] == namespace)

    def of_owner(self, owner_id: bytes) -> list[t.ActorRecord]:
        """Living actors of an owner, oldest first."""
        return [self._records[actor_id] for actor_id in self._by_owner.get(owner_id, ())]

    def on_node(self, node_id: bytes) -> list[t.ActorRecord]:
        """Living actors on a node."""
        return [self._records[actor_id] for actor_id in self._by_node.get(node_id, ())]

    def owners_on(self, node_id: bytes) -> list[bytes]:
        """Workers of a node that own living actors, wherever those are."""
        return list(self._owners_on.get(node_id, ()))

    def newest_first(self) -> Iterator[t.ActorRecord]:
        """All records in reverse order of arrival."""
        return reversed(self._records.values())

    def load(self, record: t.ActorRecord) -> None:
        """A row of the last life of the service."""
        self._place(record)

    def put(self, record: t.ActorRecord) -> list[Write] | None:
        """A newer record; the rows to write. None: nothing new, or the actor is dead already."""
        known = self._records.get(record.actor_id)
        if known is not None:
            if known.state == t.ACTOR_STATE_DEAD or known.version >= record.version:
                return None
            self._displace(known)
        self._place(record)
        writes = [Write(tables.ACTOR, record.actor_id, record.SerializeToString())]
        while len(self._dead) > self.dead_max:
            oldest = next(iter(self._dead))
            del self._dead[oldest]
            gone = self._records.pop(oldest)
            self.by_state[gone.state] -= 1
            writes.append(Write(tables.ACTOR, oldest, None))
            writes.append(Write(tables.ACTOR_SPEC, oldest, None))
        return writes

    def _place(self, record: t.ActorRecord) -> None:
        actor_id = record.actor_id
        self._records[actor_id] = record
        self.by_state[record.state] = self.by_state.get(record.state, 0) + 1
        if record.state == t.ACTOR_STATE_DEAD:
            self._dead[actor_id] = None
            return
        if record.name:
            self._names.setdefault((record.namespace, record.name), actor_id)
        self._by_owner.setdefault(record.owner_id, {})[actor_id] = None
        if record.owner_node_id:
            self._owners_on.setdefault(record.owner_node_id, {})[record.owner_id] = None
        if record.node_id:
            self._by_node.setdefault(record.node_id, {})[actor_id] = None

    def _displace(self, record: t.ActorRecord) -> None:
        actor_id = record.actor_id
        self.by_state[record.state] -= 1
        pair = (record.namespace, record.name)
        if record.name and self._names.get(pair) == actor_id:
            del self._names[pair]
        _leave(self._by_owner, record.owner_id, actor_id)
        _leave(self._by_node, record.node_id, actor_id)
        if record.owner_node_id and record.owner_id not in self._by_owner:
            _leave(self._owners_on, record.owner_node_id, record.owner_id)


def _leave(index: dict[bytes, dict[bytes, None]], key: bytes, member: bytes) -> None:
    members = index.get(key)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[key]
