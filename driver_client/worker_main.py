"""A worker process: registers with its agent, executes what callers send, ends when told.

Called in a child forked from a process that imported this module and never started gRPC.
"""

from __future__ import annotations

import asyncio
import os

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import core_worker_pb2 as cw
from cluster_api.v1 import core_worker_pb2_grpc as rpc
from cluster_api.v1.task_events_pb2 import TaskEventBatch
from cluster_common.transport import endpoints, faults
from cluster_common.transport.descriptors import raise_descriptor_limit
from cluster_common.worker_start import WorkerStart
from driver_client import limits, process
from driver_client.shell import leaving
from driver_client.shell.driver_hooks import RuntimeHooks
from driver_client.shell.executor import Executor
from driver_client.shell.farewell import say_farewell
from driver_client.shell.function_store import FunctionStore
from driver_client.shell.io_thread import IoThread
from driver_client.shell.log_printer import print_worker_lines
from driver_client.shell.outcome import flush_output
from driver_client.shell.peer_service import PeerService
from driver_client.shell.process_facts import ProcessFacts
from driver_client.shell.runtime import Runtime
from driver_client.shell.setup_hook import run_setup_hook
from driver_client.shell.worker_link import WorkerLink

_GPU_VARIABLE = "CUDA_VISIBLE_DEVICES"


class Worker:
    """Composition of one worker process."""

    def __init__(self, start: WorkerStart) -> None:
        self._start = start
        self._inherited_gpus = os.environ.get(_GPU_VARIABLE)
        self._is_leaving = False
        self._agent_heard = asyncio.Event()
        self._io = IoThread("shoal-io")
        self._io.start()
        self._facts = ProcessFacts(
            owner_id=start.worker_id,
            cluster_id=b"",
            gcs_address=start.gcs_address,
            agent_address=start.agent_address,
            own_address="",
            node_id=start.node_id,
            session_name=start.session_name,
            is_driver=False,
            temp_dir=start.temp_dir,
        )
        self._io.call(self._set_up())

    async def _set_up(self) -> None:
        start = self._start
        server = endpoints.make_server()
        port = endpoints.bind(server, start.host, 0)
        faults.be(start.node_id.hex(), port)
        self._facts.own_address = f"{start.host}:{port}"
        runtime = self.runtime = Runtime(self._io, self._facts)
        runtime.server = server
        functions = FunctionStore()
        self.executor = Executor(
            self._io,
            runtime.ownership,
            functions,
            runtime.events,
            exit_process=self.leave,
            actor_named=self._actor_named,
            children=runtime,
            kill_process=self._die_at_once,
            end_with=self._end_with,
        )
        self.executor.node_id = start.node_id.hex()
        self.hooks = RuntimeHooks(runtime, print_worker_lines)
        self.service = PeerService(
            self._io, runtime.ownership, functions, self.executor, self.hooks
        )
        rpc.add_CoreWorkerServiceServicer_to_server(self.service, server)
        await server.start()
        register = pb.RegisterWorker(
            worker_id=start.worker_id, pid=os.getpid(), address=self._facts.own_address
        )
        self.link = WorkerLink(
            self._io, start.agent_address, register, self._command, self._agent_gone
        )
        runtime.events.send = self._send_events
        runtime.blocking.blocked = self._blocked
        runtime.blocking.unblocked = self._unblocked

    def run(self) -> None:
        """Executes until told to end; on the main thread."""
        process.set_runtime(self.runtime)
        leaving.leave = self.executor.leave
        self.executor.take_interrupts()
        self.executor.run()
        if self.executor.actor is not None:
            leaving.run_last_code(self.executor.actor.instance)
        self._io.call(self._last_words())
        leaving.run_exit_handlers()
        flush_output()
        os._exit(0)

    # ---- from the agent, I/O thread

    def _command(self, command: pb.WorkerCommand) -> None:
        kind = command.WhichOneof("item")
        if kind == "welcome":
            self._welcomed(command.welcome)
        elif kind == "lease_begin":
            self._lease_begins(command.lease_begin)
        elif kind == "lease_end":
            self._facts.lease_id = b""
        elif kind == "create_actor":
            self._create_detached(command.create_actor)
        elif kind == "exit":
            self._exit(command.exit)
        elif kind == "exit_noted":
            self._agent_heard.set()
        elif kind == "flush_task_events":
            self.runtime.events.flush(asked=True)

    def _welcomed(self, welcome: pb.WorkerWelcome) -> None:
        facts = self._facts
        facts.cluster_id = self.hooks.cluster_id = welcome.cluster_id
        facts.gcs_address = welcome.gcs_address or facts.gcs_address
        facts.node_name = welcome.node_name
        facts.labels = dict(welcome.labels)

    def _lease_begins(self, begin: pb.LeaseBegin) -> None:
        facts = self._facts
        facts.job_id = begin.job_id
        facts.namespace = begin.namespace
        facts.driver_address = begin.driver_address
        facts.lease_id = begin.lease_id
        facts.resources = dict(begin.resources.amounts)
        facts.devices = {name: list(ids.ids) for name, ids in begin.devices.items()}
        facts.actor_id = begin.actor_id
        facts.placement_group_id = begin.placement_group_id
        facts.runtime_env_json = begin.runtime_env_json
        self._show_devices(facts.devices.get("GPU"))
        self.executor.lease_began(begin.lease_id)

    def _show_devices(self, gpus: list[int] | None) -> None:
        """Devices of this lease; without any what the process was started with, not the last's."""
        shown = self._inherited_gpus if gpus is None else ",".join(str(gpu) for gpu in gpus)
        if shown is None:
            os.environ.pop(_GPU_VARIABLE, None)
        else:
            os.environ[_GPU_VARIABLE] = shown

    def _actor_named(self, message: cw.CreateActor) -> None:
        facts = self._facts
        facts.actor_id = message.actor_id
        facts.actor_name = message.name
        facts.actor_handle = message.handle
        facts.actor_incarnation = message.incarnation
        facts.sys_path = tuple(message.sys_path)

    def _create_detached(self, order: pb.CreateDetachedActor) -> None:
        message = cw.CreateActor.FromString(order.creation_spec)
        message.incarnation = order.incarnation

        def answer(created: cw.ActorCreated) -> None:
            outcome = pb.ActorCreationOutcome(
                actor_id=order.actor_id,
                incarnation=order.incarnation,
                ok=created.ok,
                error=created.error,
            )
            self._io.post(self.link.send, pb.WorkerItem(actor_created=outcome))

        self.executor.create_actor_for(message, answer)

    def _exit(self, order: pb.ExitWorker) -> None:
        if order.graceful:
            self.leave(order.reason)
            return
        flush_output()
        os._exit(0)

    @staticmethod
    def _die_at_once() -> None:
        """`cancel(force=True)` of the task that runs."""
        flush_output()
        os._exit(1)

    def _agent_gone(self) -> None:
        flush_output()
        os._exit(1)

    # ---- ending, any thread

    def leave(self, reason: str) -> None:
        """Tells the agent, finishes what runs, answers it, ends."""
        self._io.post(self._leave, reason)

    def _leave(self, reason: str) -> None:
        if self._is_leaving:
            return
        self._is_leaving = True
        self.executor.exiting = True
        self.runtime.events.flush()
        self.link.send(pb.WorkerItem(exiting=pb.WorkerExiting(intended=True, reason=reason)))
        self._io.keeper.start(self._finish(), "leave")

    async def _finish(self) -> None:
        await self.executor.end_coroutines()
        self.executor.stop()
        loop = asyncio.get_running_loop()
        loop.call_later(limits.EXIT_THREADS_WAIT_S, os._exit, 0)

    async def _last_words(self) -> None:
        await say_farewell(self.service.streams, self.runtime.ownership, self._agent_heard)
        # The server is not stopped: the process's end closes its connections without a GOAWAY,
        # which every peer's gRPC would print.
        await self.runtime.close_async("the worker ended")

    def _end_with(self, status: int) -> None:
        """User code ends the process as if it crashed; what it answered before arrives."""
        self._io.post(self._crash_later, status)

    def _crash_later(self, status: int) -> None:
        if not self._is_leaving:
            self._is_leaving = True
            self._io.keeper.start(self._crash(status), "crash")

    async def _crash(self, status: int) -> None:
        self._agent_heard.set()  # it is told nothing: the process's end tells it
        await say_farewell(self.service.streams, self.runtime.ownership, self._agent_heard)
        flush_output()
        os._exit(status)

    def _send_events(self, batch: TaskEventBatch) -> None:
        self.link.send(pb.WorkerItem(task_events=batch))

    # ---- lending the CPU while blocked, any thread

    def _blocked(self) -> None:
        item = pb.WorkerItem(blocked=pb.WorkerBlocked(lease_id=self._facts.lease_id))
        self._io.post(self.link.send, item)

    def _unblocked(self) -> None:
        item = pb.WorkerItem(unblocked=pb.WorkerUnblocked(lease_id=self._facts.lease_id))
        self._io.post(self.link.send, item)


def run_worker(start: WorkerStart) -> None:
    """Entry of a worker; does not return."""
    raise_descriptor_limit()
    if start.setup_hook:
        run_setup_hook(start.setup_hook)
    Worker(start).run()
