"""A cluster of real processes on one machine, for tests and experiments.

    with Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 2}) as cluster:
        node = cluster.add_node(num_cpus=4, labels={"rack": "r1"})
        ...
        node.kill()

All agents come from one launcher process, so adding one takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from cluster_common import labels as label_rules
from cluster_common import resources as amounts
from cluster_common.transport import faults as fault_wire
from shoal import child_process
from shoal.agent_launcher import AgentLauncher, PendingAgent
from shoal.agent_process import LOOPBACK, AgentOptions, AgentProcess
from shoal.faults import Faults
from shoal.fleet import Fleet
from shoal.gcs_calls import GcsCalls, node_id_from
from shoal.ledger_check import LedgerMismatchError, settled_report
from shoal.processes import GcsOptions, GcsProcess, start_gcs
from shoal.session_folder import SessionFolder

__all__ = ["Cluster", "ClusterNode", "Fleet"]

_NODE_CPUS = 1
_NODE_OBJECT_STORE_BYTES = 150 * 1024 * 1024
_NODE_MEMORY_BYTES = 1 << 30
"""What a node of a test cluster states unless told otherwise: small, whatever the machine has."""


class ClusterNode:
    """One agent of a test cluster."""

    def __init__(self, pending: PendingAgent, node_name: str | None) -> None:
        self._pending = pending
        self._agent: AgentProcess | None = None
        self.node_name = node_name

    def __repr__(self) -> str:
        return f"ClusterNode({self._agent or 'starting'})"

    def wait(self, deadline_s: float = child_process.START_DEADLINE_S) -> AgentProcess:
        """The process, once it is registered.

        Raises:
            ProcessStartError: it did not start; has the end of its stderr.
        """
        if self._agent is None:
            self._agent = self._pending.wait(deadline_s)
        return self._agent

    @property
    def node_id(self) -> str:
        """Hex id."""
        return self.wait().node_id

    @property
    def pid(self) -> int:
        """Process id of the agent."""
        return self.wait().pid

    @property
    def address(self) -> str:
        """`host:port` of the agent."""
        return self.wait().address

    def is_alive(self) -> bool:
        """Whether the agent's process runs."""
        return self.wait().is_alive()

    def kill(self) -> None:
        """SIGKILL of the agent; its workers go with it. Returns when it is gone."""
        self.wait().kill()

    def stop(self) -> None:
        """Orderly end of the agent and its workers."""
        self.wait().stop()

    def send(self, signal_number: int) -> None:
        """Signals the agent: SIGTERM drains it, SIGSTOP makes it hang."""
        self.wait().send(signal_number)


class Cluster:
    """A GCS and any number of agents. The first node added is the head; it schedules.

    Args:
        initialize_head: adds the head at once, with `head_node_args` (those of `add_node`).
        connect: connects this process as a driver at once (needs `initialize_head`).
        storage: "sqlite" (survives `kill_gcs`), "memory", or the URL of a Redis database.
        kv_quota_bytes: what one namespace of the key-value store may hold; None: the GCS's own.
        history_rows: finished jobs, and dead actors, that the GCS keeps; None: its own numbers.
        env_vars: set for the GCS and every agent.
        ping_interval_s: silence on a node's session after which the GCS pings it; None: its own.
        inject_faults: whether the processes obey `faults`; off for measurements, since obeying
            costs a little with every message.
    """

    def __init__(
        self,
        initialize_head: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
        connect: bool = False,  # noqa: FBT001, FBT002 - Ray's signature
        head_node_args: Mapping[str, Any] | None = None,
        *,
        storage: str = "sqlite",
        env_vars: Mapping[str, str] | None = None,
        ping_interval_s: float | None = None,
        kv_quota_bytes: int | None = None,
        history_rows: int | None = None,
        inject_faults: bool = True,
    ) -> None:
        if connect and not initialize_head:
            raise ValueError(
                "connect=True needs initialize_head=True: there is nothing to connect to"
            )
        self.session = SessionFolder()
        self.head_node: ClusterNode | None = None
        self.worker_nodes: list[ClusterNode] = []
        self.faults = Faults(self.session.path / "faults")
        self._env = dict(env_vars or {})
        if inject_faults:
            self._env[fault_wire.DIRECTORY_VARIABLE] = str(self.faults.directory)
            # This process too, as long as it is a driver of this cluster.
            fault_wire.configure(self.faults.directory)
        self._ping_interval_s = ping_interval_s
        self._storage = storage
        self._kv_quota_bytes = kv_quota_bytes
        self._history_rows = history_rows
        self._gcs: GcsProcess | None = None
        self._gcs_address = ""
        self._launcher: AgentLauncher | None = None
        self._connected = False
        self._closed = False
        try:
            if initialize_head:
                self.add_node(**(head_node_args or {}))
            if connect:
                self.connect()
        except BaseException:
            self.shutdown()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    @property
    def gcs_address(self) -> str:
        """`host:port` of the GCS; stays the same over `kill_gcs` and `start_gcs`."""
        if not self._gcs_address:
            raise RuntimeError("the cluster has no GCS yet: add a node first")
        return self._gcs_address

    @property
    def address(self) -> str:
        """What `shoal.init(address=…)` takes."""
        return self.gcs_address

    @property
    def gcs_pid(self) -> int:
        """Process id of the GCS."""
        if self._gcs is None:
            raise RuntimeError("the GCS is not running")
        return self._gcs.pid

    @property
    def nodes(self) -> list[ClusterNode]:
        """All nodes that were added and not removed, the head first."""
        return [*([self.head_node] if self.head_node else []), *self.worker_nodes]

    def add_node(
        self,
        wait: bool = True,  # noqa: FBT001, FBT002 - Ray's signature
        *,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        object_store_memory: int | None = None,
        node_name: str | None = None,
        env_vars: Mapping[str, str] | None = None,
        scheduler: bool = False,
        prestart: int | None = None,
        settings: Mapping[str, str] | None = None,
        via: ClusterNode | str | None = None,
    ) -> ClusterNode:
        """Starts one more node. With `wait=False` it returns at once; `wait_for_nodes` waits.

        `via` is a node (or the `host:port` of its agent) that relays the session to the GCS.

        Raises:
            ValueError, TypeError: a bad amount or label, before anything is started.
            ProcessStartError: it did not start; has the end of its stderr.
        """
        self._check_open()
        stated = {"CPU": num_cpus or 0, "GPU": num_gpus or 0, **(resources or {})}
        amounts.vector(stated)
        label_rules.check_labels(labels or {})
        is_head = self.head_node is None
        options = AgentOptions(
            node_name=node_name,
            num_cpus=_NODE_CPUS if num_cpus is None else num_cpus,
            num_gpus=num_gpus,
            memory=_NODE_MEMORY_BYTES if memory is None else memory,
            object_store_memory=(
                _NODE_OBJECT_STORE_BYTES if object_store_memory is None else object_store_memory
            ),
            resources=dict(resources or {}),
            labels=dict(labels or {}),
            via=via.address if isinstance(via, ClusterNode) else via,
            scheduler=scheduler or is_head,
            head=is_head,
            prestart=prestart,
            settings=dict(settings or {}),
            env={**self._env, **(env_vars or {})},
        )
        launcher = self._launcher_for_nodes()
        launcher.warm()
        if self._gcs is None and is_head:
            self.start_gcs()
        node = ClusterNode(launcher.begin(options, self.gcs_address), node_name)
        if wait:
            node.wait()
        if is_head:
            self.head_node = node
        else:
            self.worker_nodes.append(node)
        return node

    def remove_node(
        self,
        node: ClusterNode,
        allow_graceful: bool = True,  # noqa: FBT001, FBT002 - Ray's signature
    ) -> None:
        """Ends a node, in order or by SIGKILL. Returns when its agent is gone."""
        if node not in self.nodes:
            raise ValueError(f"{node!r} is not a node of this cluster")
        if allow_graceful:
            node.stop()
        else:
            node.kill()
        if node is self.head_node:
            self.head_node = None
        else:
            self.worker_nodes.remove(node)

    def wait_for_nodes(self, timeout: float = 30) -> None:
        """Waits until exactly the nodes whose agents run are alive for the GCS.

        Raises:
            TimeoutError: says which are missing, which should be gone.
        """
        running = [node for node in self.nodes if node.is_alive()]
        expected = {node_id_from(node.node_id) for node in running}
        seen: set[bytes] = set()

        def enough(alive: Mapping[bytes, object]) -> bool:
            seen.clear()
            seen.update(alive)
            return seen == expected

        with GcsCalls(self.gcs_address) as gcs:
            if gcs.wait_for_nodes(enough, timeout):
                return
        raise TimeoutError(
            f"after {timeout:g} s: missing {_short(expected - seen)}, "
            f"not gone {_short(seen - expected)}"
        )

    def list_all_nodes(self) -> list[ClusterNode]:
        """All nodes that were added and not removed, the head first."""
        return self.nodes

    def connect(self, namespace: str | None = None) -> Any:
        """Connects this process as a driver; returns what `shoal.init` returns."""
        # Late, here and below: who only starts a cluster needs no driver.
        import shoal

        # Before: an interrupt between the end of `init` and here must not leave the driver behind.
        self._connected = self._connected or not shoal.is_initialized()
        return shoal.init(address=self.address, namespace=namespace)

    def kill_gcs(self) -> None:
        """SIGKILL of the GCS. Nodes and drivers stay and look for it."""
        if self._gcs is None:
            raise RuntimeError("the GCS is not running")
        self._gcs.kill()
        self._gcs = None

    def start_gcs(self) -> None:
        """Starts the GCS: the first, or again with the same address and storage."""
        self._check_open()
        if self._gcs is not None:
            raise RuntimeError("the GCS is running")
        port = int(self._gcs_address.rpartition(":")[2]) if self._gcs_address else 0
        path = self.session.path / "gcs" if self._storage == "sqlite" else None
        storage, place = self._storage, path
        if "://" in storage:
            storage, place = "redis", storage
        options = GcsOptions(
            host=LOOPBACK,
            port=port,
            storage=storage,
            storage_path=place,
            kv_quota_bytes=self._kv_quota_bytes,
            history_rows=self._history_rows,
            ping_interval_s=self._ping_interval_s,
        )
        self._gcs = start_gcs(self.session, options, env=self._env)
        self._gcs_address = self._gcs.address

    def check_ledger(self) -> None:
        """Checks that grants, bundles and availability agree between all agents and the GCS.

        Raises:
            LedgerMismatchError: they differ, and went on differing for some seconds.
        """
        with GcsCalls(self.gcs_address) as gcs:
            report = settled_report(gcs)
        if report.differences:
            raise LedgerMismatchError("\n".join(report.differences))

    def drain(
        self,
        node_or_id: ClusterNode | str,
        reason: str = "preemption",
        deadline_s: float = 30,
    ) -> None:
        """Drains a node; returns when the GCS accepted and recorded it.

        Raises:
            ValueError: unknown node or reason.
        """
        text = node_or_id if isinstance(node_or_id, str) else node_or_id.node_id
        with GcsCalls(self.gcs_address) as gcs:
            gcs.drain(node_id_from(text), reason, deadline_s)

    def shutdown(self) -> None:
        """Disconnects this driver, ends every process, removes the session's folder. Idempotent."""
        if self._closed:
            return
        self._closed = True
        try:
            # Nothing may be held any more when everything ends.
            self.faults.clear()
            if self._connected:
                import shoal

                shoal.shutdown()
        finally:
            if self._launcher is not None:
                self._launcher.close()
            if self._gcs is not None:
                # Its store is deleted next: an orderly end would only wait for peers.
                self._gcs.kill()
            self.faults.close()
            fault_wire.configure(None)
            self.session.remove()
            self.head_node = None
            self.worker_nodes = []

    def _launcher_for_nodes(self) -> AgentLauncher:
        if self._launcher is None:
            self._launcher = AgentLauncher(self.session, env=self._env)
        return self._launcher

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the cluster was shut down")


def _short(node_ids: Sequence[bytes] | set[bytes]) -> str:
    return ", ".join(sorted(identity.hex()[:12] for identity in node_ids)) or "none"
