"""Resources that name a node: `node:<host>` and, on the head, `node:__internal_head__`.

As in Ray every node has 1.0 of its own, so that `resources={"node:10.0.0.7": 0.01}` leads to it.
They follow from a node's address and role, so nobody sends them: a snapshot names only what is in
use. With them in every total no two nodes would be alike, and choosing nodes costs what the kinds
of nodes are, not their number. Agents of one host share the name.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster_common.resources import RESOURCE_UNIT, Vector

PREFIX = "node:"
HEAD = "node:__internal_head__"


def is_identity(resource: str) -> bool:
    """Whether the resource names nodes."""
    return resource.startswith(PREFIX)


def identity_of(address: str, *, is_head: bool) -> Vector:
    """What a node has of these; `address` is `host:port`."""
    host = address.rpartition(":")[0]
    names = {PREFIX + host: RESOURCE_UNIT} if host else {}
    if is_head:
        names[HEAD] = RESOURCE_UNIT
    return names


def without_identity(amounts: Mapping[str, int]) -> Vector:
    """The amounts that do not name nodes."""
    return {name: amount for name, amount in amounts.items() if not name.startswith(PREFIX)}
