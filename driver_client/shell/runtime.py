"""The runtime of one driver or worker process: what user threads call, and the parts behind it.

User threads serialize, make entries and append to a queue; the I/O thread does the rest. The owner
side (leases, pools, owned actors) is made when a process first submits something: most workers
never do.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from cluster_api.v1 import agent_pb2 as agent_pb
from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import node_session_pb2 as ns
from cluster_common import ids
from driver_client import exceptions, limits, object_ref
from driver_client.core.call import CallTemplate
from driver_client.core.scheduling_key import SchedulingKey
from driver_client.object_ref import ObjectRef
from driver_client.object_ref_generator import ObjectRefGenerator
from driver_client.objects import entry as entries
from driver_client.objects.entry import Entry
from driver_client.objects.generator_state import GeneratorState
from driver_client.shell import running
from driver_client.shell.actor_client import ActorClient
from driver_client.shell.actor_host import ActorHost
from driver_client.shell.actor_watches import ActorWatches
from driver_client.shell.blocking import Blocking
from driver_client.shell.bundle_router import BundleRouter
from driver_client.shell.cancelling import Canceller, Children
from driver_client.shell.dependencies import Dependencies
from driver_client.shell.environments import Environments
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.group_session import GroupSession
from driver_client.shell.io_thread import IoThread
from driver_client.shell.lease_client import LeaseClient
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.ownership import Ownership
from driver_client.shell.process_facts import ProcessFacts
from driver_client.shell.record_reporter import RecordReporter
from driver_client.shell.submissions import Submissions
from driver_client.shell.task_events import TaskEvents
from driver_client.shell.task_submitter import TaskSubmitter


class Runtime:
    """One per process.

    Methods without a remark may be called from any thread but the I/O thread.
    """

    def __init__(self, io: IoThread, facts: ProcessFacts, *, gcs: GcsLink | None = None) -> None:
        self.io = io
        self.facts = facts
        self.services = OwnerServices(io, facts.owner_id, self.hello)
        self.services.own_address = facts.own_address
        self.services.worker_node_id = b"" if facts.is_driver else facts.node_id
        self.ownership = Ownership(self.services, self._actor_out_of_scope)
        self.ownership.borrowed_gone = self._borrowed_gone
        self.services.resolve = self.ownership.resolve
        self.services.after_acknowledged = self.ownership.after_acknowledged
        self.services.take_extras = self.ownership.frame_extras
        self.dependencies = Dependencies(self.ownership)
        self.blocking = Blocking()
        self.events = TaskEvents(io, facts)
        self.clients: dict[bytes, ActorClient] = {}
        self.node_listeners: list[Callable[[ns.NodeChange], None]] = []
        self.home_lost: Callable[[str], None] = lambda _message: None
        self.closed = False
        self._submissions = Submissions(self.services, self.dependencies, self.tasks)
        self._gcs = gcs
        self.server: Any = None
        self._groups: GroupSession | None = None
        self._leases: LeaseClient | None = None
        self._tasks: TaskSubmitter | None = None
        self._host: ActorHost | None = None
        self.children = Children()
        self._canceller = Canceller(self.services, lambda: self._tasks, self.clients)
        self._watches: ActorWatches | None = None
        self._router = BundleRouter(io, self.group_session)
        io.each_pass(self._pass)
        object_ref.resolve = self.ownership.resolve
        object_ref.export = self.ownership.export
        object_ref.fetch = self.ownership.fetch
        object_ref.wake_io = io.wake

    @property
    def has_leases(self) -> bool:
        """Whether this process ever leased a worker."""
        return self._leases is not None and self._leases.ever_granted

    # ---- parts made on first use, I/O thread

    def gcs(self) -> GcsLink:
        """The channel to the GCS."""
        if self._gcs is None:
            self._gcs = GcsLink(self.facts.gcs_address, self.facts.cluster_id)
        return self._gcs

    def group_session(self) -> GroupSession:
        """The stream for placement groups."""
        if self._groups is None:
            from cluster_api.v1 import (
                placement_groups_pb2 as pg,
            )  # late: most workers need no groups

            hello = pg.GroupHello(
                cluster_id=self.facts.cluster_id,
                owner_id=self.facts.owner_id,
                job_id=self.facts.job_id,
            )
            link = self.gcs()
            self._groups = GroupSession(self.io, link.channel, hello, link.heed)
        return self._groups

    @property
    def group_session_if_any(self) -> GroupSession | None:
        """The stream for placement groups, if there is one. Any thread."""
        return self._groups

    def leases(self) -> LeaseClient:
        """Lease sessions; the first is the home session, which ties our life to our agent's eye."""
        if self._leases is None:
            self._leases = LeaseClient(
                self.io,
                self.facts.agent_address,
                self._open_owner,
                node_changed=self._node_changed,
                home_lost=lambda message: self.home_lost(message),  # noqa: PLW0108 - set later
            )
            self._router.leases = self._leases
        return self._leases

    def tasks(self) -> TaskSubmitter:
        """Task pools."""
        if self._tasks is None:
            self._tasks = TaskSubmitter(self.services, self.leases(), self._router)
        return self._tasks

    def host(self) -> ActorHost:
        """Owned actors."""
        if self._host is None:
            leases = self.leases()
            link = self.gcs()
            reporter = RecordReporter(
                self.io, link.actors, self.facts.owner_id, leases.known_at_home, link.heed
            )
            self._host = ActorHost(
                self.services,
                leases,
                self._router,
                self.group_session,
                reporter,
                self.facts.job_id,
            )
        return self._host

    @functools.cached_property
    def environments(self) -> Environments:
        """Runtime environments of what is submitted here. Any thread."""
        return Environments(self.io, self.facts, self.gcs)

    @property
    def host_if_any(self) -> ActorHost | None:
        """Owned actors, if there ever were any."""
        return self._host

    def watches(self) -> ActorWatches:
        """States of actors that others host."""
        if self._watches is None:
            self._watches = ActorWatches(self.io, self.ownership, self.gcs, self.clients)
        return self._watches

    def _open_owner(self) -> agent_pb.OpenOwner:
        facts = self.facts
        return agent_pb.OpenOwner(
            cluster_id=facts.cluster_id,
            owner_id=facts.owner_id,
            job_id=facts.job_id,
            owner_address=facts.own_address,
            driver_address=facts.driver_address,
            is_driver=facts.is_driver,
            log_to_driver=facts.log_to_driver,
            pid=os.getpid(),
        )

    def hello(self) -> pb.PeerHello:
        """The first message of every stream to another process."""
        facts = self.facts
        return pb.PeerHello(
            cluster_id=facts.cluster_id,
            sender_id=facts.owner_id,
            sender_address=facts.own_address,
            job_id=facts.job_id,
            sys_path=facts.sys_path,
            detached_by_default=facts.detached_by_default,
        )

    def _node_changed(self, change: ns.NodeChange) -> None:
        for listener in list(self.node_listeners):
            listener(change)

    # ---- the I/O thread's pass

    def _pass(self) -> None:
        self._submissions.take()
        if object_ref.changes:
            self.ownership.sweep()

    def _actor_out_of_scope(self, entry: Entry) -> None:
        if self._host is not None and not self.closed:
            self._host.out_of_scope(entry)
        self.clients.pop(entry.actor, None)

    def _borrowed_gone(self, object_id: bytes) -> None:
        """The last local handle of somebody else's actor: its client and stream go too."""
        client = self.clients.pop(ids.task_of(object_id), None)
        if client is not None and client.hooks is None:
            client.retire()

    # ---- user threads: calls

    def submit(
        self,
        target: SchedulingKey | ActorClient,
        template: CallTemplate,
        payload: bytes,
        extra: Any,
    ) -> Any:
        """Queues one call; the references of its returns (one, a list, a generator, or None)."""
        services = self.services
        sequence = next(services.sequence)
        entry = Entry(sequence, services.owner_id, services.own_address)
        count = template.num_returns
        ref: ObjectRefGenerator | ObjectRef[Any] | list[ObjectRef[Any]] | None
        if template.streaming:
            ref = self._streaming(entry, sequence, template)
        elif count == 1:
            ref = ObjectRef(entry)
        else:
            ref = self._several(entry, sequence, count)
        if type(target) is ActorClient:
            entry.is_actor_call = True
        if not self.facts.is_driver:
            parent = running.current.get()
            if parent is not None:
                self.children.add(parent.task_id, entry)
        self._submissions.append((target, (sequence, template, payload, entry, extra)))
        self.io.wake()
        return ref

    def _streaming(self, entry: Entry, sequence: int, template: CallTemplate) -> ObjectRefGenerator:
        services = self.services

        def item(index: int) -> Entry:
            made = Entry(sequence | ((index + 1) << 64), services.owner_id, services.own_address)
            made.local = 0
            return made

        state = GeneratorState(entry, item)
        entry.generator = state
        if template.backpressure:
            state.consumed = lambda count: self.io.post(self._consumed, sequence, count)
        return ObjectRefGenerator(state, ObjectRef(entry))

    def _consumed(self, sequence: int, count: int) -> None:
        """Tells the worker how much of a generator was taken; I/O thread."""
        connection = self.services.generator_connections.get(sequence)
        if connection is not None and not connection.closed:
            connection.control().generator_consumed.add(task_seq=sequence, items=count)

    def _several(self, entry: Entry, sequence: int, count: int) -> list[ObjectRef[Any]] | None:
        if count == 0:
            entry.local = 0
            return None
        services = self.services
        entry.siblings = [
            Entry(sequence | (index << 64), services.owner_id, services.own_address)
            for index in range(1, count)
        ]
        return [ObjectRef(part) for part in (entry, *entry.siblings)]

    def put(self, data: bytes, contained: list[Any]) -> ObjectRef[Any]:
        """A reference to a serialized value."""
        if len(data) > limits.OBJECT_BYTES_MAX:
            raise exceptions.ObjectStoreFullError(
                f"the value has {len(data)} bytes; at most {limits.OBJECT_BYTES_MAX} travel inline"
            )
        services = self.services
        entry = Entry(next(services.sequence), services.owner_id, services.own_address)
        entry.data = data
        entry.state = entries.VALUE
        if contained:
            entry.contained = contained
        return ObjectRef(entry)

    def new_ref(self) -> tuple[ObjectRef[Any], Entry]:
        """A pending reference that something in this process completes."""
        services = self.services
        entry = Entry(next(services.sequence), services.owner_id, services.own_address)
        return ObjectRef(entry), entry

    def counts(self) -> dict[str, int]:
        """Sizes of the tables, for state and leak checks."""
        return {
            "objects": len(self.ownership.own),
            "borrowed": len(self.ownership.borrowed),
            "pending_tasks": self._tasks.pending_tasks() if self._tasks else 0,
            "actors": self._host.alive_count() if self._host else 0,
            "actor_clients": len(self.clients),
        }

    def cancel(self, entry: Entry, *, force: bool, recursive: bool) -> None:
        """Cancels the call that makes `entry`. Any thread."""
        self.io.post(self._cancel, entry, force, recursive)

    def _cancel(self, entry: Entry, force: bool, recursive: bool) -> None:  # noqa: FBT001 - posted
        self._submissions.take()
        if type(entry.key) is bytes:
            owner = self.ownership.owner(entry.owner_address, entry.owner_id).control()
            owner.cancel_task_ids.append(ids.task_of(entry.object_id))
            owner.cancel_force = force
            owner.cancel_recursive = recursive
        else:
            self._canceller.cancel(entry, force=force, recursive=recursive)

    def cancel_children(self, parent: bytes, *, force: bool) -> None:
        """Cancels what a cancelled call submitted. I/O thread."""
        self._canceller.cancel_all(self.children.take(parent), force=force)

    def cancel_owned(self, frame: pb.PeerFrame) -> None:
        """A borrower asks to cancel calls that this process owns. I/O thread."""
        for task_id in frame.cancel_task_ids:
            entry = self.ownership.own.get(ids.sequence_of(task_id))
            if entry is not None and ids.owner_of(task_id) == self.facts.owner_id:
                self._canceller.cancel(
                    entry, force=frame.cancel_force, recursive=frame.cancel_recursive
                )

    async def names_settled(self) -> None:
        """Waits until the names of actors that died in this process are free."""
        if self._host is not None:
            await self._host.reporter.names_free(limits.GCS_CALL_TIMEOUT_S)

    def remove_group(self, group_id: bytes) -> None:
        """Sends the removal and ends what this process has in the group; I/O thread."""
        self.group_session().remove(group_id)
        if self._host is not None:
            self._host.group_removed(group_id)
        if self._tasks is not None:
            text = f"placement group {group_id.hex()} was removed"
            self._tasks.group_removed(group_id, exceptions.TaskPlacementGroupRemoved(text))

    # ---- end

    async def close_async(self, reason: str) -> None:
        """Says goodbye to agents; I/O thread."""
        self.closed = True
        if self._host is not None:
            self._host.close()
        if self._leases is not None:
            await self._leases.close(reason)
        if self._gcs is not None:
            await self._gcs.channel.close()

    def detach_hooks(self) -> None:
        """After this, references of the closed runtime are inert."""
        object_ref.resolve = None
        object_ref.export = None
        object_ref.fetch = None
        object_ref.wake_io = None
        object_ref.changes.clear()
