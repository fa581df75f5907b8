"""The agent from its first import to its last exit code: what `app` and `launcher` both run."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import cast

import uvloop
from grpc import aio

from cluster_api.v1 import agent_pb2_grpc, node_session_pb2_grpc
from cluster_api.v1 import node_session_pb2 as n
from cluster_api.v1 import types_pb2 as t
from cluster_common import ids
from cluster_common import limits as common_limits
from cluster_common.transport import faults
from cluster_common.transport.endpoints import bind, make_server
from cluster_common.transport.logs import get_logger, set_up_logs
from cluster_common.transport.task_keeper import TaskKeeper
from cluster_common.worker_start import WorkerStart
from raylet_agent import exit_codes, limits
from raylet_agent.core.agent import AgentCore
from raylet_agent.core.effects import EndAgent
from raylet_agent.core.facts import NodeFacts
from raylet_agent.core.snapshots import node_labels
from raylet_agent.settings import DEFAULT_PRELOAD, AgentSettings
from raylet_agent.shell.agent_servicer import AgentServicer
from raylet_agent.shell.builders import Builders
from raylet_agent.shell.environment_store import EnvironmentStore
from raylet_agent.shell.fork_client import ForkClient
from raylet_agent.shell.fork_server import start_fork_server
from raylet_agent.shell.host import AgentHost, now_ms
from raylet_agent.shell.log_pusher import LogPusher
from raylet_agent.shell.node_session import NodeSession
from raylet_agent.shell.package_service import PackageServicer
from raylet_agent.shell.relay import Relay

log = get_logger()

_STOP_GRACE_S = 0.1
"""Peers get an orderly end of the connection first: cancelling at once makes their gRPC print."""

Entry = Callable[[WorkerStart], None]


def import_modules(names: tuple[str, ...]) -> None:
    """Imports what workers will need, so that they start with it.

    Raises:
        ValueError: a module cannot be imported; names it.
    """
    for module in names:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError as error:
            if module in DEFAULT_PRELOAD and error.name == module.partition(".")[0]:
                continue
            raise ValueError(f"--preload: cannot import {module!r}: {error}") from error


def load_entry(settings: AgentSettings) -> Entry:
    """Imports what workers need and finds their entry.

    Raises:
        ValueError: a module or the function is missing; names it.
    """
    import_modules(settings.preload)
    module, _, function = settings.worker_entry.partition(":")
    try:
        entry: object = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"--worker-entry {settings.worker_entry!r} cannot be loaded: {error}"
        ) from error
    if not callable(entry):
        raise ValueError(f"--worker-entry {settings.worker_entry!r} is not a function")  # noqa: TRY004 - a wrong value of an option, reported as such
    return cast("Entry", entry)


def run_agent(settings: AgentSettings, entry: Entry) -> int:
    """Runs an agent in this process until it ends; returns its exit code.

    Call it from a single-threaded process that never started gRPC: the fork server is forked first.
    """
    set_up_logs("agent", settings.log_level)
    sock, fork_server_pid = start_fork_server(entry)
    try:
        return uvloop.run(Agent(settings, sock, fork_server_pid).run())
    finally:
        sock.close()


class Agent:
    """One agent process: what it consists of and how it ends."""

    def __init__(self, settings: AgentSettings, sock: socket.socket, fork_server_pid: int) -> None:
        self._settings = settings
        self._sock = sock
        self._fork_server_pid = fork_server_pid
        self._keeper = TaskKeeper("agent")
        self._ending: asyncio.Future[int]
        self._stop_asked = False
        self._goodbye = n.Goodbye(
            cause=t.NODE_DEATH_CAUSE_EXPECTED, message="the agent was stopped"
        )
        self._host: AgentHost
        self._relay: Relay

    async def run(self) -> int:
        """Serves until told to stop; afterwards no process of this node is left."""
        loop = asyncio.get_running_loop()
        self._ending = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGINT, self._end, exit_codes.OK, "SIGINT")
        self._watch_parent(loop)
        server = make_server(message_bytes_max=common_limits.CONTROL_MESSAGE_BYTES_MAX)
        try:
            port = bind(server, self._settings.host, self._settings.port)
        except OSError as error:
            log.error("cannot_listen", reason=str(error))  # noqa: TRY400 - the reason is the whole story, no traceback
            await self._close_fork_server()
            return exit_codes.FAILED
        session = await self._start(server, port)
        try:
            code = await self._ending
        finally:
            await self._stop(server, session)
        return code

    async def _start(self, server: aio.Server, port: int) -> NodeSession:
        settings = self._settings
        facts = self._facts(port)
        faults.be(facts.node_id.hex(), port)
        core = AgentCore(
            facts,
            settings.total,
            new_id=lambda: os.urandom(ids.OWNER_ID_BYTES),
            random=Random(os.urandom(8)),  # noqa: S311 - a choice among equals, no secret
            ahead=self._ahead(),
            now_ms=now_ms(),
        )
        logs = LogPusher(self._keeper)
        host = self._host = AgentHost(core, settings, self._keeper, logs)
        host.forks = ForkClient(
            self._sock,
            host.report,
            lambda: self._end(exit_codes.FORK_SERVER_LOST, "the fork server ended"),
        )
        host.end_agent = self._drained
        host.forks.open()
        host.environments = EnvironmentStore(
            facts,
            lambda: host.log_folder().parent,
            int(settings.environment_cache_mib * (1 << 20)),
            Builders(host.forks, host.log_folder),
            self._keeper,
            host.environment_made,
            host.environment_failed,
        )
        session = NodeSession(
            host, settings.gcs_reconnect_timeout_s, self._registered, via=settings.via
        )
        self._relay = Relay(settings.gcs_address, self._keeper)
        node_session_pb2_grpc.add_NodeSessionServiceServicer_to_server(self._relay, server)
        agent_pb2_grpc.add_AgentServiceServicer_to_server(
            AgentServicer(host, lambda reason: self._end(exit_codes.OK, reason)), server
        )
        packages = PackageServicer(host.environments)
        agent_pb2_grpc.add_PackageServiceServicer_to_server(packages, server)
        await server.start()
        if settings.prestart > 0:
            core.prestart()
            host.run_effects()
        self._keeper.start(self._keep_session(session), "node_session")
        return session

    def _facts(self, port: int) -> NodeFacts:
        settings = self._settings
        hostname = socket.gethostname()
        node_id = os.urandom(ids.NODE_ID_BYTES)
        return NodeFacts(
            node_id=node_id,
            address=f"{settings.reached_at}:{port}",
            node_name=settings.node_name or f"{hostname}:{port}",
            hostname=hostname,
            labels=node_labels(settings.labels, node_id),
            is_head=settings.head,
            is_scheduler=settings.scheduler or settings.head,
            gcs_address=settings.gcs_address,
            pid=os.getpid(),
            start_time_ms=time.time_ns() // 1_000_000,
            wall_offset_ms=time.time_ns() // 1_000_000 - now_ms(),
            session_name=settings.session_name,
        )

    def _ahead(self) -> int:
        if self._settings.prestart >= 0:
            return self._settings.prestart
        cpus = self._settings.total.get("CPU", 0) // 10_000
        return min(cpus, limits.WORKERS_FORKED_AHEAD_DEFAULT)

    async def _keep_session(self, session: NodeSession) -> None:
        try:
            code = await session.run()
        except Exception:
            # Without its session the node would hold leases nobody can account for.
            self._end(exit_codes.FAILED, "the node session failed")
            raise
        self._end(code, "the node session ended")

    def _registered(self) -> None:
        """The GCS took this node in: owners may come, and whoever waits for the port file."""
        self._host.joined.set()
        if not self._settings.port_file:
            return
        facts = self._host.core.facts
        content = {"address": facts.address, "node_id": facts.node_id.hex(), "pid": os.getpid()}
        path = Path(self._settings.port_file)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(path)

    def _watch_parent(self, loop: asyncio.AbstractEventLoop) -> None:
        descriptor = self._settings.die_with_parent_fd
        if descriptor < 0:
            return

        def readable() -> None:
            if not os.read(descriptor, 1024):
                loop.remove_reader(descriptor)
                self._end(exit_codes.OK, "the parent process ended")

        loop.add_reader(descriptor, readable)

    def _asked_to_stop(self) -> None:
        """SIGTERM: what runs may finish within the grace; the second one ends the agent at once."""
        if self._stop_asked or not hasattr(self, "_host"):
            self._end(exit_codes.OK, "SIGTERM")
            return
        self._stop_asked = True
        grace_ms = round(self._settings.stop_grace_s * 1_000)
        self._host.core.asked_to_stop(grace_ms, "its agent was told to stop (SIGTERM)", now_ms())
        self._host.run_effects()

    def _drained(self, effect: EndAgent) -> None:
        self._goodbye = n.Goodbye(cause=effect.cause, message=effect.message)
        self._end(exit_codes.OK, effect.message)

    def _end(self, code: int, reason: str) -> None:
        if not self._ending.done():
            log.info("agent_ends", code=code, reason=reason)
            self._ending.set_result(code)

    async def _stop(self, server: aio.Server, session: NodeSession) -> None:
        # Told first: the GCS need not wait for a resumption that will not come.
        await self._host.say_last_words(limits.LAST_WORDS_S)
        await session.say_goodbye(self._goodbye)
        await self._close_fork_server()
        await server.stop(_STOP_GRACE_S)
        await self._keeper.close()
        await self._relay.close()
        if self._host.environments is not None:
            await self._host.environments.close()
        self._host.close()
        if self._settings.port_file:
            Path(self._settings.port_file).unlink(missing_ok=True)  # noqa: ASYNC240 - one unlink at the end

    async def _close_fork_server(self) -> None:
        """Closes our end; the fork server kills all workers and ends, which is waited for."""
        if hasattr(self, "_host"):
            self._host.forks.close()
        else:
            self._sock.close()
        await _ended(self._fork_server_pid)


async def _ended(pid: int) -> None:
    """Waits until a child has ended, kills it after a grace, reaps it."""
    loop = asyncio.get_running_loop()
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    gone = asyncio.Event()
    loop.add_reader(descriptor, gone.set)
    try:
        async with asyncio.timeout(limits.STOP_GRACE_S):
            await gone.wait()
    except TimeoutError:
        log.error("fork_server_does_not_end", pid=pid)  # noqa: TRY400 - the reason is the whole story, no traceback
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        await gone.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)  # noqa: ASYNC222 - it has ended already
