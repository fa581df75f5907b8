"""Nodes nobody here heard of, about which the GCS is asked whether they are in the cluster.

Work may be bound to a node whose view is on its way, or to one that never was. Whoever binds work
to a node got its id from the GCS or from the node itself after it joined, so what the GCS answers
decides about everything that came before the question left.
"""

from __future__ import annotations

import msgspec

from cluster_api.v1 import node_session_pb2 as n
from raylet_agent import limits
from raylet_agent.core.effects import Effect, SendToGcs


class _Question(msgspec.Struct):
    """`asked_up_to`: the newest request it was asked for; `newest`: that came meanwhile."""

    asked_up_to: int
    newest: int


class NodeQuestions:
    """One question a node at a time. Requests are named by their order of arrival."""

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._open: dict[bytes, _Question] = {}

    def ask(self, node_id: bytes, sequence: int) -> None:
        """A request waits for word of the node. With too many questions open, for its time-out."""
        known = self._open.get(node_id)
        if known is not None:
            known.newest = max(known.newest, sequence)
        elif len(self._open) < limits.NODE_QUESTIONS_MAX:
            self._open[node_id] = _Question(sequence, sequence)
            self._send(node_id)

    def answered(self, node_id: bytes) -> int:
        """Up to which request the answer counts (0: for none); asks again for those after it."""
        question = self._open.pop(node_id, None)
        if question is None:
            return 0
        if question.newest > question.asked_up_to:
            self.ask(node_id, question.newest)
        return question.asked_up_to

    def session_began(self) -> None:
        """What was asked in the last session of the node is not answered any more."""
        for node_id, question in self._open.items():
            question.asked_up_to = question.newest
            self._send(node_id)

    def _send(self, node_id: bytes) -> None:
        question = n.NodeQuestion(node_id=node_id)
        self._out.append(SendToGcs(n.AgentItem(node_question=question)))
