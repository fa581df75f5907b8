"""Thousands of nodes in one process, for tests and measurements against a real GCS.

    with Fleet(cluster.address, 1000, resources={"CPU": 8}) as fleet:
        ...

Agents are the real ones as far as the GCS and drivers can tell; workers are faked: an actor made on
a fleet node is created at once and answers every call with None.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from cluster_common import labels as label_rules
from cluster_common import resources as amounts
from shoal import child_process
from shoal.child_process import ProcessStartError
from shoal.closing import Closing
from shoal.session_folder import SessionFolder

START_DEADLINE_S = 150.0
ANSWER_DEADLINE_S = 330.0
"""For the longest command: a churn whose views do not converge says so by itself before."""

_STOP_GRACE_S = 30.0
_PLAIN = ("CPU", "GPU")


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """Counters of a fleet since its start. Messages are frames, `in` and `out` are the GCS's."""

    nodes: int
    running: int
    workers: int
    bundles: int
    calls: int
    leases_granted: int
    leases_rejected: int
    prepares: int
    prepares_rejected: int
    messages_in: int
    items_in: int
    bytes_in: int
    messages_out: int
    items_out: int
    bytes_out: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FleetChurn:
    """Seconds since the first change; `receivers` are the agents whose views were compared."""

    changing_s: float
    converged_s: float
    nodes: int
    receivers: int

    def to_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


class Fleet(Closing):
    """A process with many agents. Made when all of them are in; close it, or use it in a `with`.

    Args:
        address: `host:port` of the GCS.
        nodes: how many agents.
        rack_size: neighbours that share a label `rack` (r0, r1, …); 0: no such label.
        connections: TCP connections that carry their sessions; 0: one for each agent.
        own_streams: each agent has a stream of its own; else one for each connection carries all.
        resources: of each node, by name; default 8 CPUs.
        labels: of each node.
        leases: every agent listens and grants leases, so that tasks and actors can run there.
        schedulers: so many agents, the first ones, have the scheduler role.
        first: number of the first agent: names and racks go on where another fleet ended.
        sync_delay_s: the agents' snapshots are held back this long.

    Raises:
        ValueError, TypeError: a bad amount or label, before anything is started.
        ProcessStartError: not all agents got in; has the end of the fleet's stderr.
    """

    def __init__(
        self,
        address: str,
        nodes: int,
        *,
        rack_size: int = 18,
        connections: int = 100,
        own_streams: bool = False,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        leases: bool = False,
        schedulers: int = 0,
        first: int = 0,
        sync_delay_s: float = 0.0,
        name: str = "fleet",
    ) -> None:
        stated = {"CPU": 8.0} if resources is None else dict(resources)
        amounts.vector(stated)
        label_rules.check_labels(labels or {})
        custom = {key: value for key, value in stated.items() if key not in _PLAIN}
        flags: list[tuple[str, object]] = [
            ("--gcs-address", address),
            ("--nodes", nodes),
            ("--connections", connections),
            ("--rack-size", rack_size),
            ("--num-cpus", stated.get("CPU", 0)),
            ("--num-gpus", stated.get("GPU", 0)),
            ("--resources", json.dumps(custom) if custom else ""),
            ("--labels", ",".join(f"{key}={value}" for key, value in (labels or {}).items())),
            ("--schedulers", schedulers),
            ("--first", first),
            ("--sync-delay", sync_delay_s),
            ("--name", name),
        ]
        command = [text for flag, value in flags for text in (flag, str(value))]
        self._lock = threading.Lock()
        self._last_id = 0
        self._unread = b""
        self._session = SessionFolder()
        _, self._log_file = self._session.next_files("fleet")
        try:
            switches = {"--leases": leases, "--own-streams": own_streams}
            command += [flag for flag, is_set in switches.items() if is_set]
            self._process = self._start(command)
            self.join_s = float(self._read(START_DEADLINE_S)["seconds"])
        except BaseException:
            self.close()
            raise

    def _start(self, flags: list[str]) -> subprocess.Popen[bytes]:
        with self._log_file.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own module, our own flags
                [sys.executable, "-m", "raylet_agent.fleet", *flags],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def node_ids(self) -> list[str]:
        """Hex ids of all agents in order; `rack_size` neighbours share a rack."""
        return list(self._ask("nodes"))

    def status(self) -> FleetStatus:
        """Counters now."""
        return FleetStatus(**self._ask("status"))

    def churn(self, times: int = 10, window_s: float = 1.0) -> FleetChurn:
        """Changes every node `times` times within `window_s`; returns when all views are true.

        Raises:
            ValueError: no agent receives views, or they did not become true in 300 s.
        """
        return FleetChurn(**self._ask("churn", times=times, window_s=window_s))

    def kill_node(self, node_id: str) -> None:
        """One agent goes as if by SIGKILL, with the workers it has.

        With `leases` the GCS sees it at once; without, when the time to resume is over (5 s).

        Raises:
            ValueError: not a node of this fleet.
        """
        self._ask("kill", node_id=node_id)

    def kill(self) -> None:
        """SIGKILL of the whole fleet."""
        self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """Waits for the end of the process; its exit code."""
        return self._process.wait()

    def close(self) -> None:
        """Orderly end of all agents. Idempotent."""
        process = getattr(self, "_process", None)
        if process is not None:
            # It ends with its input.
            with contextlib.suppress(OSError):
                process.stdin.close()
            try:
                process.wait(_STOP_GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._session.remove()

    def _ask(self, operation: str, **arguments: object) -> Any:
        with self._lock:
            self._last_id += 1
            command = {"id": self._last_id, "op": operation, **arguments}
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                self._process.stdin.flush()
            except (OSError, ValueError) as error:
                raise ProcessStartError(self._gone()) from error
            answer = self._read(ANSWER_DEADLINE_S)
        if "error" in answer:
            raise ValueError(str(answer["error"]))
        return answer["result"]

    def _read(self, deadline_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end = time.monotonic() + deadline_s
        while b"\n" not in self._unread:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise ProcessStartError(
                    f"the fleet said nothing for {deadline_s:g} s"
                    f"{child_process.tail_of(self._log_file)}"
                )
            data = os.read(descriptor, 1 << 16)
            if not data:
                raise ProcessStartError(self._gone())
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _gone(self) -> str:
        status = self._process.wait(_STOP_GRACE_S)
        described = child_process.describe(status)
        return f"the fleet ended with {described}{child_process.tail_of(self._log_file)}"
