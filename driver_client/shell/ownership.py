"""Reference counts of this process: what it owns and lends, what it borrows.

On the I/O thread, except that references are rebuilt where values are read: the lock keeps two
threads from making two entries of one borrowed object.

Own entries are in a table only once their id left the process (`export`); most never do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_common import ids
from driver_client import exceptions, object_ref
from driver_client.core.borrowing import BorrowLedger
from driver_client.core.call import CallRecord
from driver_client.object_ref import ObjectRef
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry, key_of
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.peer_connection import PeerConnection

ActorGone = Callable[[Entry], None]


class Ownership:
    """Owned and borrowed entries, and the streams to the owners of the latter."""

    def __init__(self, services: OwnerServices, actor_out_of_scope: ActorGone) -> None:
        self._services = services
        self._actor_out_of_scope = actor_out_of_scope
        self.own: dict[int, Entry] = {}
        self.borrowed: dict[bytes, Entry] = {}
        self._owners: dict[str, PeerConnection] = {}
        self._ledger = BorrowLedger()
        self._lock = threading.RLock()  # a finalizer of users may read references at any point
        self._after: list[tuple[set[bytes], Callable[[], None]]] = []
        self._fetching: dict[bytes, None] = {}
        self.actor_states: Callable[[pb.PeerReplyFrame], None] = lambda _frame: None
        self.owner_lost: Callable[[str], None] = lambda _address: None
        self.borrowed_gone: Callable[[bytes], None] = lambda _object_id: None

    def on_io(self, work: Callable[[], None]) -> None:
        """Runs `work` on the I/O thread: now if this is it."""
        if self._services.io.is_current:
            work()
        else:
            self._services.io.post(work)

    # ---- counting

    def sweep(self) -> None:
        """Applies what user threads did to their references."""
        changes = object_ref.changes
        while changes:
            change = changes.popleft()
            if isinstance(change, tuple):
                entry = change[0]
                if entry.local == 0 and type(entry.key) is bytes:
                    self._revive(entry)
                entry.local += 1
            else:
                change.local -= 1
                if change.local <= 0:
                    self._unreferenced(change)

    def _unreferenced(self, entry: Entry) -> None:
        if type(entry.key) is bytes:
            self._return_borrowed(entry)
        elif not entry.borrowers:
            self._free(entry)

    def _free(self, entry: Entry) -> None:
        if entry.actor is not None:
            self._actor_out_of_scope(entry)
        if self.own:
            self.own.pop(entry.key, None)  # pyright: ignore[reportArgumentType, reportCallIssue]
        entry.contained = None

    def _revive(self, entry: Entry) -> None:
        """A user thread took one more reference while the last one was being swept."""
        object_id = entry.object_id
        with self._lock:
            present = self.borrowed.get(object_id)
            if present is None:
                self.borrowed[object_id] = entry
                self._ledger.add(object_id, entry.owner_address)
        if present is None:
            self._announce(entry)
        elif present is not entry:
            # Another thread made a new entry in between: this one keeps it and follows it.
            entry.contained = [object_ref.another(present)]
            follower = _Follower(entry)
            if not present.add_waiter(follower):
                follower.notify(present)

    def _return_borrowed(self, entry: Entry) -> None:
        object_id = entry.object_id
        with self._lock:
            if self.borrowed.get(object_id) is not entry:
                entry.contained = None
                return
            del self.borrowed[object_id]
            removals = self._ledger.remove(object_id, entry.owner_address)
        self._fetching.pop(object_id, None)
        entry.contained = None
        self.borrowed_gone(object_id)
        self._send_removals(removals)

    # ---- rebuilding references

    def export(self, entry: Entry) -> None:
        """The id of an own entry leaves the process. Any thread: one dictionary write."""
        if type(entry.key) is int:
            self.own[entry.key] = entry

    def resolve(self, object_id: bytes, owner_address: str) -> ObjectRef[Any]:
        """The reference for an id that came in. Any thread."""
        if object_id[: ids.OWNER_ID_BYTES] == self._services.owner_id:
            entry = self.own.get(key_of(object_id))
            if entry is None:
                return ObjectRef(self._lost(object_id, owner_address))
            return object_ref.another(entry)
        with self._lock:
            entry = self.borrowed.get(object_id)
            if entry is not None:
                return object_ref.another(entry)
            entry = Entry(object_id, ids.owner_of(object_id), owner_address)
            self.borrowed[object_id] = entry
            self._ledger.add(object_id, owner_address)
        self._services.io.post(self._announce, entry)
        return ObjectRef(entry)

    def _lost(self, object_id: bytes, owner_address: str) -> Entry:
        entry = Entry(object_id, ids.owner_of(object_id), owner_address)
        error = exceptions.ObjectFreedError(object_id.hex())
        entry.complete(exceptions.pickle_error(error), entries.ERROR)
        return entry

    def _announce(self, entry: Entry) -> None:
        frame = self.owner(entry.owner_address, entry.owner_id).control()
        frame.borrows.add(
            object_id=entry.object_id,
            borrower_id=self._services.owner_id,
            borrower_address=self._services.own_address,
        )

    def _send_removals(self, removals: list[tuple[bytes, str]]) -> None:
        for object_id, address in removals:
            connection = self._owners.get(address)
            if connection is None or connection.closed:
                continue  # an owner that is gone keeps nothing
            connection.control().borrows.add(
                object_id=object_id, borrower_id=self._services.owner_id, removed=True
            )

    def after_acknowledged(self, object_ids: list[bytes], then: Callable[[], None]) -> None:
        """Runs `then` once no addition of these ids is on its way."""
        waiting = self._ledger.unacknowledged.intersection(object_ids)
        if waiting:
            self._after.append((waiting, then))
        else:
            then()

    @property
    def has_unacknowledged(self) -> bool:
        """Whether any addition is on its way. Any thread."""
        return self._ledger.is_waiting

    def unacknowledged(self) -> set[bytes]:
        """Additions that no owner confirmed yet."""
        return self._ledger.unacknowledged

    def _acknowledged(self, object_id: bytes) -> None:
        with self._lock:
            removals = self._ledger.acknowledged(object_id)
        self._send_removals(removals)
        if object_id not in self._ledger.unacknowledged:
            self._settled({object_id})

    def _settled(self, object_ids: set[bytes]) -> None:
        """Runs what waited for these only."""
        due: list[Callable[[], None]] = []
        rest: list[tuple[set[bytes], Callable[[], None]]] = []
        for waiting, then in self._after:
            waiting.difference_update(object_ids)
            if waiting:
                rest.append((waiting, then))
            else:
                due.append(then)
        self._after = rest
        for then in due:
            then()

    # ---- values of borrowed objects

    def fetch(self, entry: Entry) -> None:
        """Makes the owner send the value of a borrowed entry. Any thread."""
        if type(entry.key) is bytes and entry.state == entries.PENDING:
            self._services.io.post(self._fetch, entry)

    def _fetch(self, entry: Entry) -> None:
        object_id = entry.object_id
        if entry.state != entries.PENDING or object_id in self._fetching:
            return
        self._fetching[object_id] = None
        self.owner(entry.owner_address, entry.owner_id).control().watch_object_ids.append(object_id)

    def _object_state(self, state: pb.ObjectState) -> None:
        self._fetching.pop(state.object_id, None)
        entry = self.borrowed.get(state.object_id)
        if entry is None:
            return
        if state.status == pb.OBJECT_STATUS_READY:
            if state.contained:
                entry.contained = [
                    self.resolve(c.object_id, c.owner_address) for c in state.contained
                ]
            entry.complete(state.value, entries.ERROR if state.is_error else entries.VALUE)
            return
        text = f"object {state.object_id.hex()} was freed by its owner"
        error = exceptions.ObjectFreedError(state.object_id.hex(), message=text)
        entry.complete(exceptions.pickle_error(error), entries.ERROR)

    # ---- streams to owners (PeerListener)

    def owner(self, address: str, owner_id: bytes) -> PeerConnection:
        """The stream to an owner."""
        connection = self._owners.get(address)
        if connection is None or connection.closed:
            connection = self._services.connect(address, owner_id, self)
            self._owners[address] = connection
        return connection

    def results_arrived(self, connection: PeerConnection, count: int, busy_us: int) -> None:
        """Ownership streams carry no calls."""

    def result_is_special(
        self,
        connection: PeerConnection,
        record: CallRecord,
        kind: int,
        value: bytes,
        detail: pb.ResultDetail | None,
    ) -> None:
        """Ownership streams carry no calls."""

    def calls_returned(self, connection: PeerConnection, records: list[CallRecord]) -> None:
        """Ownership streams carry no calls."""

    def frame_extras(self, connection: PeerConnection, frame: pb.PeerReplyFrame) -> None:
        """Answers of owners."""
        for state in frame.object_states:
            self._object_state(state)
        for ack in frame.borrow_acks:
            self._acknowledged(ack.object_id)
        if frame.actor_states:
            self.actor_states(frame)

    def connection_lost(
        self, connection: PeerConnection, unfinished: list[CallRecord], message: str
    ) -> None:
        """The owner is gone, and with it what it owned."""
        if self._owners.get(connection.address) is connection:
            del self._owners[connection.address]
        for object_id, entry in list(self.borrowed.items()):
            if entry.owner_address != connection.address:
                continue
            if entry.state == entries.PENDING:
                where = entry.owner_address
                text = f"the owner of object {object_id.hex()} at {where} died: {message}"
                error = exceptions.OwnerDiedError(object_id.hex(), message=text)
                entry.complete(exceptions.pickle_error(error), entries.ERROR)
        with self._lock:
            lost, removals = self._ledger.owner_gone(connection.address)
        self._send_removals(removals)
        self._settled(set(lost))
        self.owner_lost(connection.address)

    # ---- what we lend

    def borrow(self, change: pb.BorrowChange) -> bool:
        """A borrower came or went. Whether the object is known."""
        entry = self.own.get(key_of(change.object_id))
        if entry is None:
            return False
        if not change.removed:
            if entry.borrowers is None:
                entry.borrowers = set()
            entry.borrowers.add(change.borrower_id)
        elif entry.borrowers is not None:
            self._drop_borrower(entry, change.borrower_id)
        return True

    def _drop_borrower(self, entry: Entry, borrower_id: bytes) -> None:
        assert entry.borrowers is not None, "only called for lent entries"
        entry.borrowers.discard(borrower_id)
        if not entry.borrowers and entry.local <= 0:
            self._free(entry)

    def adopt(self, value: bytes, contained: list[ObjectRef[Any]], borrower_id: bytes) -> Entry:
        """A value that another process made and gives to this one; that one holds it."""
        services = self._services
        entry = Entry(next(services.sequence), services.owner_id, services.own_address)
        entry.data = value
        entry.state = entries.VALUE
        entry.local = 0
        entry.contained = list(contained) or None
        entry.borrowers = {borrower_id}
        self.export(entry)
        return entry

    def borrower_gone(self, borrower_id: bytes, object_ids: set[bytes]) -> None:
        """A borrower's process ended."""
        for object_id in sorted(object_ids):
            entry = self.own.get(key_of(object_id))
            if entry is not None and entry.borrowers is not None:
                self._drop_borrower(entry, borrower_id)


class _Follower:
    """Completes an entry with what another entry of the same object gets."""

    def __init__(self, entry: Entry) -> None:
        self._entry = entry

    def notify(self, entry: Entry) -> None:
        self._entry.complete(entry.data, entry.state)
