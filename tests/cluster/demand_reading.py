"""Reads demand, and runs the reference autoscaler, for tests with real processes."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import yaml

from shoal.cluster_utils import Cluster
from shoal.util.autoscaler import ClusterResourceState, cluster_resource_state
from tests.cluster.waiting import until

DEADLINE_S = 60.0


def split(state: ClusterResourceState, resource: str) -> tuple[int, int]:
    """How many requests for the resource wait, and how many have it."""
    shapes = [*state.pending, *state.infeasible]
    waiting = sum(shape.count for shape in shapes if resource in shape.resources)
    used = sum(node.used.get(resource, 0) for node in state.nodes if node.status != "DEAD")
    return waiting, round(used)


def until_split(resource: str, waiting: int, used: int) -> None:
    """Waits until so many wait for the resource and so many have it."""
    last = (-1, -1)

    def reached() -> bool:
        nonlocal last
        last = split(cluster_resource_state(), resource)
        return last == (waiting, used)

    try:
        until(reached, resource, DEADLINE_S)
    except AssertionError as error:
        raise AssertionError(f"{(waiting, used)} expected, last seen {last}: {error}") from None


def of_type(state: ClusterResourceState, name: str) -> int:
    return sum(node.node_type == name and node.status != "DEAD" for node in state.nodes)


class Reader:
    """Reads snapshots one after another in a thread, and keeps those that break the rule.

    Args:
        wanted: what pending and running must add up to in each of them.
        resource: which each request needs one of.
        node_type: whose nodes are counted.
    """

    def __init__(self, wanted: int, resource: str, node_type: str = "") -> None:
        self.wanted = wanted
        self._resource = resource
        self._node_type = node_type
        self.wrong: list[tuple[int, int, int]] = []
        self.most_nodes = 0
        self.read = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            state = cluster_resource_state()
            waiting, used = split(state, self._resource)
            if waiting + used != self.wanted:
                self.wrong.append((state.version, waiting, used))
            self.most_nodes = max(self.most_nodes, of_type(state, self._node_type))
            self.read += 1


@contextmanager
def autoscaler(cluster: Cluster, folder: Path, **config: object) -> Iterator[Path]:
    """`shoal autoscaler` with this configuration, ended in order; gives the file with its log."""
    setup = {"provider": {"type": "local", "temp_dir": str(folder / "t")}, **config}
    file = folder / "nodes.yaml"
    file.write_text(yaml.safe_dump(setup), encoding="utf-8")
    program = [str(Path(sys.executable).with_name("shoal")), "autoscaler"]
    log = folder / "autoscaler.err"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [*program, "--config", str(file), "--address", cluster.address], stderr=errors
        )
        try:
            yield log
        finally:
            process.terminate()
            code = process.wait(30)
    assert code == 0, log.read_text(encoding="utf-8")


def run_status(cluster: Cluster) -> str:
    program = str(Path(sys.executable).with_name("shoal"))
    command = [program, "status", "--json", "--address", cluster.address]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout
