"""Which nodes are reached over which stream: one stream may carry many nodes."""

from __future__ import annotations

from collections import Counter


class OpenSessions:
    """Nodes with a session. Questions cost what they answer, not the number of nodes."""

    def __init__(self) -> None:
        self._session_of: dict[bytes, int] = {}
        self._nodes_of: Counter[int] = Counter()

    def __len__(self) -> int:
        return len(self._session_of)

    @property
    def streams_count(self) -> int:
        """Streams that carry at least one of the nodes."""
        return len(self._nodes_of)

    def put(self, node_id: bytes, session: int) -> None:
        """The node is reached over this stream now."""
        self.drop(node_id)
        self._session_of[node_id] = session
        self._nodes_of[session] += 1

    def drop(self, node_id: bytes, session: int | None = None) -> None:
        """The node is reached no more; with a session: only if it was reached over that one."""
        known = self._session_of.get(node_id)
        if known is None or session not in (None, known):
            return
        del self._session_of[node_id]
        self._nodes_of[known] -= 1
        if not self._nodes_of[known]:
            del self._nodes_of[known]

    def sessions(self) -> list[int]:
        """Every stream once, oldest first."""
        return list(self._nodes_of)

    def is_only(self, node_id: bytes) -> bool:
        """Whether there is no other node."""
        return not self._session_of or self._session_of.keys() == {node_id}

    def sessions_but(self, node_id: bytes) -> list[int]:
        """Every stream once, but for one that carries this node alone."""
        own = self._session_of.get(node_id)
        if own is None or self._nodes_of[own] > 1:
            return list(self._nodes_of)
        return [session for session in self._nodes_of if session != own]
