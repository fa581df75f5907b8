"""`./run bench schedule_stale`: 20,000 leases on nodes of which the scheduler hears late."""

from __future__ import annotations

import argparse
import threading
import time
from typing import Any

import shoal
from benchmarks.report import Row, emit
from benchmarks.scale_gcs import gcs_only, head_node
from driver_client import process, strategies
from shoal.cluster_utils import Fleet

NODES = 200
LEASES = 20_000
DELAYS_S = (0.0, 0.1, 1.0, 5.0)
DEADLINE_S = 240.0


class Holder:
    """Counts what becomes of leases; called on the driver's I/O thread."""

    def __init__(self, wanted: int) -> None:
        self.granted: list[bytes] = []
        self.failed: list[str] = []
        self.done = threading.Event()
        self._wanted = wanted

    def lease_granted(self, grant: Any) -> None:
        """One more is placed."""
        self.granted.append(grant.lease_id)
        if len(self.granted) + len(self.failed) == self._wanted:
            self.done.set()

    def lease_failed(self, failed: Any) -> None:
        """It will not be placed."""
        self.failed.append(failed.message)
        if len(self.granted) + len(self.failed) == self._wanted:
            self.done.set()

    def lease_pending(self, pending: Any) -> None:
        """It waits at the scheduler."""

    def lease_moved(self) -> None:
        """It waits with another agent."""

    def worker_ended(self, ended: Any) -> None:
        """Nobody ends a worker here."""

    def lease_draining(self, lease_id: bytes) -> None:
        """No node drains."""

    def lease_idle(self, lease_id: bytes) -> bool:  # noqa: ARG002 - the holder's signature
        """They are kept until the end."""
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES, help="agents, of equal size")
    parser.add_argument(
        "--leases", type=int, default=LEASES, help="of one CPU; they fill the nodes"
    )
    parser.add_argument(
        "--delays", type=float, nargs="+", default=DELAYS_S, help="seconds that views are late"
    )
    arguments = parser.parse_args()
    nodes, leases = arguments.nodes, arguments.leases
    if leases < 1 or leases % nodes:
        parser.error(f"--leases {leases} is not a multiple of --nodes {nodes}")
    for delay_s in arguments.delays:
        with (
            gcs_only() as gcs,
            head_node(gcs.address),
            Fleet(
                gcs.address,
                nodes,
                resources={"CPU": leases // nodes},
                leases=True,
                sync_delay_s=delay_s,
            ) as fleet,
        ):
            shoal.init(address=gcs.address)
            try:
                _round(fleet, leases, {"nodes": nodes, "leases": leases, "view_delay_s": delay_s})
            finally:
                shoal.shutdown()


def _round(fleet: Fleet, leases: int, params: dict[str, object]) -> None:
    runtime = process.get_runtime()
    key = strategies.scheduling_key({"num_cpus": 1}, for_actor=False, name="one_cpu")
    holder = Holder(leases)
    requests = [key.lease_request(runtime.services.next_id()) for _ in range(leases)]

    def ask() -> None:
        for request in requests:
            runtime.leases().request(request, holder)

    start = time.perf_counter()
    runtime.io.post(ask)
    if not holder.done.wait(DEADLINE_S):
        raise RuntimeError(f"only {len(holder.granted)} of {leases} leases were placed")
    placed_s = time.perf_counter() - start
    if holder.failed:
        raise RuntimeError(f"{len(holder.failed)} leases failed: {holder.failed[0]}")
    status = fleet.status()
    emit(Row("rejects_per_lease", status.leases_rejected / leases, "1", params))
    emit(Row("placed_s", placed_s, "s", params | {"rejects": status.leases_rejected}))


if __name__ == "__main__":
    main()
