"""One lease session of an owner over the simulated network: the real tries, without gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_api.v1 import agent_pb2 as a
from cluster_simulator.link import Link
from driver_client.core.asked_lease import AgentSession
from driver_client.core.reconnecting import Reconnecting

if TYPE_CHECKING:
    from cluster_simulator.owner.lease_desk import LeaseDesk


class LeaseSession:
    """Keeps itself connected for a while after a break, then reports the loss."""

    def __init__(self, desk: LeaseDesk, agent: AgentSession) -> None:
        self.agent = agent
        self.attempts = 0
        self._desk = desk
        self._owner = desk.owner
        self._is_welcome = False
        self._link: Link | None = None
        self._unsent: list[a.OwnerItem] = []
        self._tries = Reconnecting(self._owner.heap.now_ms)
        self._connect()

    def send(self, item: a.OwnerItem) -> None:
        """Queues an item; what was not sent outlives a reconnect."""
        if self._is_welcome and self._link is not None:
            self._link.send(0, item)
        else:
            self._unsent.append(item)

    def close(self) -> None:
        """Ends it without a report."""
        if self._link is not None:
            self._link.close(0)

    def _connect(self) -> None:
        if self.agent.is_over:
            return
        owner = self._owner
        self._is_welcome = False
        self.attempts += 1
        self._link = owner.network.connect("lease", owner, self.agent.address)
        self._link.data = None
        owner.lease_links[self._link.number] = self
        opening = self._desk.opening(self.agent)
        self._link.send(0, a.OwnerItem(open=opening))
        story = owner.world.story
        if story.is_on:
            what = "home" if opening.is_home else "work"
            story.note(f"{owner.name} dials {self.agent.address} for {what}", owner.owner_id)

    def arrived(self, items: list[a.LeaseItem]) -> None:
        """What the agent says."""
        for item in items:
            if self.agent.is_over:
                return
            welcome = item.HasField("welcome")
            self._is_welcome = self._is_welcome or welcome
            self._desk.item_arrived(self, item)
            if welcome:
                unsent, self._unsent = self._unsent, []
                for one in unsent:
                    self.send(one)

    def broken(self) -> None:
        """The stream is over: looks whether the port refuses, tries again."""
        broke_ms = self._owner.heap.now_ms
        if self._is_welcome:
            self._tries.welcome_broke(broke_ms)
        self._is_welcome = False
        self._link = None
        if not self.agent.is_over:
            self._owner.network.probe(
                self._owner, self.agent.address, lambda word: self._probed(word, broke_ms)
            )

    def _probed(self, word: str, broke_ms: int) -> None:
        if self.agent.is_over:
            return
        delay_ms = self._tries.next_try_ms(broke_ms, refused=word == "refused")
        if delay_ms is None:
            self._desk.session_lost(self.agent, refused=self._tries.is_refused)
        else:
            self._owner.later(delay_ms * 1_000, self._connect)
