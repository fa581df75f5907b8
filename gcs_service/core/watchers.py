"""Who wants to hear of which group or actor. A watch may come before its topic exists."""

from __future__ import annotations

from typing import Generic, TypeVar

Topic = TypeVar("Topic", bound=bytes)


class Watchers(Generic[Topic]):
    """Sessions by topic (a group's or an actor's id) and topics by session, in order of arrival."""

    def __init__(self) -> None:
        self._by_topic: dict[Topic, dict[int, None]] = {}
        self._by_session: dict[int, dict[Topic, None]] = {}

    def add(self, session: int, topic: Topic) -> None:
        """Idempotent."""
        self._by_topic.setdefault(topic, {})[session] = None
        self._by_session.setdefault(session, {})[topic] = None

    def remove(self, session: int, topic: Topic) -> None:
        """Idempotent."""
        sessions = self._by_topic.get(topic)
        if sessions is not None and sessions.pop(session, True) is None and not sessions:
            del self._by_topic[topic]
        topics = self._by_session.get(session)
        if topics is not None and topics.pop(topic, True) is None and not topics:
            del self._by_session[session]

    def close(self, session: int) -> None:
        """The session ended."""
        for topic in list(self._by_session.get(session, ())):
            self.remove(session, topic)

    def of(self, topic: Topic) -> list[int]:
        """Sessions that watch a topic."""
        return list(self._by_topic.get(topic, ()))

    def __len__(self) -> int:
        return sum(len(sessions) for sessions in self._by_topic.values())
