"""Who wants to hear of which group or actor. A watch may come before its topic exists."""

from __future__ import annotations

from typing import Generic, TypeVar

from gcs_service import limits

Topic = TypeVar("Topic", bound=bytes)


class Watchers(Generic[Topic]):
    """Sessions by topic (a group's or an actor's id) and topics by session, in order of arrival."""

    def __init__(self) -> None:
        self._by_topic: dict[Topic, dict[int, None]] = {}
        self._by_session: dict[int, dict[Topic, None]] = {}
        self._count = 0

    def add(self, session: int, topic: Topic) -> bool:
        """Idempotent. False: `WATCHES_MAX` are open, this one is not."""
        sessions = self._by_topic.get(topic)
        if sessions is not None and session in sessions:
            return True
        if self._count >= limits.WATCHES_MAX:
            return False
        self._by_topic.setdefault(topic, {})[session] = None
        self._by_session.setdefault(session, {})[topic] = None
        self._count += 1
        return True

    def remove(self, session: int, topic: Topic) -> None:
        """Idempotent."""
        sessions = self._by_topic.get(topic)
        if sessions is None or session not in sessions:
            return
        del sessions[session]
        if not sessions:
            del self._by_topic[topic]
        topics = self._by_session[session]
        del topics[topic]
        if not topics:
            del self._by_session[session]
        self._count -= 1

    def close(self, session: int) -> None:
        """The session ended."""
        for topic in list(self._by_session.get(session, ())):
            self.remove(session, topic)

    def end(self, topic: Topic) -> None:
        """The topic reached its last state: nothing more will be said of it."""
        for session in self.of(topic):
            self.remove(session, topic)

    def of(self, topic: Topic) -> list[int]:
        """Sessions that watch a topic."""
        return list(self._by_topic.get(topic, ()))

    def __len__(self) -> int:
        return self._count
