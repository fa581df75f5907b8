"""Two processes' worth of runtime in this one: an owner, and a worker with its own main thread.

They talk over real gRPC. Both share one I/O thread; each has its own identity, tables and server.
"""

from __future__ import annotations

import threading
import time

from cluster_api.v1 import core_worker_pb2 as pb
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_common.transport import endpoints
from driver_client.arguments import pack
from driver_client.core.call import CallTemplate, function_body
from driver_client.object_ref import ObjectRef, open_entry
from driver_client.objects import serialization
from driver_client.objects.entry import Entry
from driver_client.shell.blocking import Blocking
from driver_client.shell.cancelling import Children
from driver_client.shell.executor import Executor
from driver_client.shell.function_store import FunctionStore
from driver_client.shell.io_thread import IoThread
from driver_client.shell.owner_services import OwnerServices
from driver_client.shell.ownership import Ownership
from driver_client.shell.peer_service import PeerService
from driver_client.shell.process_facts import ProcessFacts
from driver_client.shell.task_events import TaskEvents

WAIT_S = 10.0
CLUSTER = b"c" * 16


def until(condition, what):
    """Polls a condition until it holds; the deadline names what was missing."""
    end = time.monotonic() + WAIT_S
    while not (found := condition()):
        assert time.monotonic() < end, f"not within {WAIT_S} s: {what}"
        time.sleep(0.002)
    return found


class Hooks:
    """What the peer service asks of a process, written down."""

    def __init__(self, owner_id):
        self.cluster_id = CLUSTER
        self.owner_id = owner_id
        self.hellos = []
        self.watching = []
        self.killed = []
        self.cancelled = []

    def greeted(self, hello):
        self.hellos.append(hello)

    def cancel_owned(self, frame):
        self.cancelled += frame.cancel_task_ids

    def watch_actor(self, actor_id, stream):
        self.watching.append((actor_id, stream))

    def unwatch_actor(self, actor_id, stream):
        self.watching.remove((actor_id, stream))

    async def kill_actor(self, actor_id, *, no_restart, reason):
        self.killed.append((actor_id, no_restart, reason))
        return actor_id == b"known"

    def print_logs(self, lines):
        pass

    def state_counts(self):
        return {"objects": 3, "borrowed": 2}


class NoChildCalls:
    """The calls of these tests submit nothing."""

    def __init__(self):
        self.children = Children()

    def cancel_children(self, parent, *, force):
        raise AssertionError(f"{parent} has no children (force={force})")


class Caller:
    """A listener that completes entries as the runtime does and writes the rest down."""

    def __init__(self, services):
        self._services = services
        self.returned = []
        self.frames = []
        self.lost = []
        self.counted = 0

    def results_arrived(self, connection, count, busy_us):
        self.counted += count

    def result_is_special(self, connection, record, kind, value, detail):
        self._services.complete_special(connection, record, kind, value, detail)

    def calls_returned(self, connection, records):
        self.returned += records

    def frame_extras(self, connection, frame):
        copy = pb.PeerReplyFrame()
        copy.CopyFrom(frame)
        self.frames.append(copy)
        self._services.take_extras(connection, frame)

    def connection_lost(self, connection, unfinished, message):
        self.lost.append((unfinished, message))


class Side:
    """One process: identity, reference tables, and a server."""

    def __init__(self, io, letter):
        self.io = io
        self.owner_id = letter * 16
        self.freed = []
        self.services = OwnerServices(io, self.owner_id, self.hello)
        self.ownership = Ownership(self.services, self.freed.append)
        self.services.resolve = self.ownership.resolve
        self.services.after_acknowledged = self.ownership.after_acknowledged
        self.services.take_extras = self.ownership.frame_extras
        self.hooks = Hooks(self.owner_id)
        self.cluster_id = CLUSTER
        self.sys_path = []
        self.executor = None
        self.left = []
        self._thread = None
        self._server = None

    def hello(self):
        return pb.PeerHello(
            cluster_id=self.cluster_id,
            sender_id=self.owner_id,
            sender_address=self.services.own_address,
            sys_path=self.sys_path,
        )

    async def serve(self, *, execute):
        functions = FunctionStore()
        facts = ProcessFacts(
            owner_id=self.owner_id,
            cluster_id=self.cluster_id,
            gcs_address="",
            agent_address="",
            own_address="",
            node_id=b"",
            session_name="",
            is_driver=False,
        )
        if execute:
            self.executor = Executor(
                self.io,
                self.ownership,
                functions,
                TaskEvents(self.io, facts),
                exit_process=self.left.append,
                actor_named=lambda _message: None,
                children=NoChildCalls(),
                kill_process=lambda: self.left.append("killed"),
                end_with=lambda status: self.left.append(f"status {status}"),
            )
            self.executor.node_id = "ab" * 16
            self._thread = threading.Thread(target=self.executor.run, name="worker main")
            self._thread.start()
        self.service = PeerService(self.io, self.ownership, functions, self.executor, self.hooks)
        self._server = endpoints.make_server()
        rpc.add_CoreWorkerServiceServicer_to_server(self.service, self._server)
        port = endpoints.bind(self._server, "127.0.0.1", 0)
        self.services.own_address = f"127.0.0.1:{port}"
        await self._server.start()

    @property
    def address(self):
        return self.services.own_address

    async def stop(self):
        if self._server is not None:
            server, self._server = self._server, None
            await server.stop(None)

    def end(self):
        if self.executor is not None:
            self.io.call(self._stop_executing())
            self._thread.join(WAIT_S)
            assert not self._thread.is_alive(), "the worker's main thread does not end"

    async def _stop_executing(self):
        self.executor.stop()


class PeerRig:
    """`owner` calls, `worker` executes."""

    def __init__(self):
        self.io = IoThread("rig io")
        self.io.start()
        self.owner = Side(self.io, b"o")
        self.worker = Side(self.io, b"w")
        self.io.call(self.owner.serve(execute=False))
        self.io.call(self.worker.serve(execute=True))
        self.caller = Caller(self.owner.services)
        self.connections = []
        self._bodies = {}

    def close(self):
        self.worker.end()
        self.io.close(self._close())

    async def _close(self):
        for connection in self.connections:
            connection.close()
        for side in (self.owner, self.worker):
            for connection in list(side.ownership._owners.values()):
                connection.close()
            await side.stop()

    def on_io(self, work):
        """Runs a function on the I/O thread; its result."""

        async def run():
            return work()

        return self.io.call(run())

    def connect(self, receiver_id=None, address=None, records=()):
        """A stream from the owner to the worker; `records` are queued before it can break."""

        def start():
            connection = self.owner.services.connect(
                address or self.worker.address, receiver_id or self.worker.owner_id, self.caller
            )
            connection.send(records)
            return connection

        connection = self.on_io(start)
        self.connections.append(connection)
        return connection

    def template(self, function, **options):
        """The template of a function, made once, as a remote function's is."""
        key = (function, tuple(sorted(options.items())))
        if key not in self._bodies:
            body = function_body(serialization.dumps_by_value(function), function.__qualname__)
            self._bodies[key] = CallTemplate(body=body, call_name=function.__name__, **options)
        return self._bodies[key]

    def record(self, template, *args, **kwargs):
        services = self.owner.services
        sequence = next(services.sequence)
        entry = Entry(sequence, services.owner_id, services.own_address)
        entry.siblings = [
            Entry(sequence | (index << 64), services.owner_id, services.own_address)
            for index in range(1, template.num_returns)
        ] or None
        payload, extra = pack(args, kwargs)
        return (sequence, template, payload, entry, extra)

    def send(self, connection, *records):
        self.on_io(lambda: connection.send(records))

    def call(self, connection, function, *args, **kwargs):
        """Sends one call; its record."""
        made = self.record(self.template(function), *args, **kwargs)
        self.send(connection, made)
        return made

    @staticmethod
    def value(record, part=0):
        """Waits for a call's value; raises its error."""
        entry = ([record[3], *(record[3].siblings or ())])[part]
        Blocking().until_complete([entry], WAIT_S)
        return open_entry(entry)

    def put(self, value):
        """An owned, complete object whose id left the owner; its reference."""
        services = self.owner.services
        entry = Entry(next(services.sequence), services.owner_id, services.own_address)
        entry.complete(serialization.dumps(value), 1)
        self.owner.ownership.export(entry)
        return ObjectRef(entry), entry
