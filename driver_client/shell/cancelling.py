"""Cancels calls of this process, and what they submitted themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from cluster_common import ids
from driver_client import exceptions
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.task_submitter import TaskSubmitter


class Children:
    """Calls submitted by the call that runs: for recursive cancelling. Any thread."""

    def __init__(self) -> None:
        self._of: dict[bytes, list[Entry]] = {}

    def add(self, parent: bytes, entry: Entry) -> None:
        """One more child."""
        self._of.setdefault(parent, []).append(entry)

    def take(self, parent: bytes) -> list[Entry]:
        """The children of a call that is over or cancelled."""
        return self._of.pop(parent, []) if self._of else []


class Canceller:
    """I/O thread only."""

    def __init__(
        self,
        services: OwnerServices,
        tasks: Callable[[], TaskSubmitter | None],
        clients: dict[bytes, ActorClient],
    ) -> None:
        self._services = services
        self._tasks = tasks
        self._clients = clients

    def cancel(self, entry: Entry, *, force: bool, recursive: bool) -> None:
        """Cancels the call that makes `entry`; one that is over is left alone."""
        if entry.state != entries.PENDING or not isinstance(entry.key, int):
            return
        sequence = entry.key & 0xFFFF_FFFF_FFFF_FFFF
        tasks = self._tasks()
        if tasks is not None and tasks.cancel(sequence, force=force, recursive=recursive):
            return
        if any(client.cancel(sequence, recursive=recursive) for client in self._clients.values()):
            return
        # Still waiting for its arguments: whoever waits finds it complete.
        task = ids.task_id(self._services.owner_id, sequence)
        error = exceptions.TaskCancelledError(task.hex())
        entry.complete(exceptions.pickle_error(error), entries.ERROR)

    def cancel_all(self, children: Iterable[Entry], *, force: bool) -> None:
        """Cancels the children of a cancelled call."""
        for entry in children:
            self.cancel(entry, force=force, recursive=True)


class ChildCalls(Protocol):
    """What the running calls submitted themselves."""

    children: Children

    def cancel_children(self, parent: bytes, *, force: bool) -> None:
        """Cancels what a cancelled call submitted."""
