"""`shoal check-ledger` while groups, actors and tasks come and go and a node dies."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import shoal
from shoal.cluster_utils import Cluster
from shoal.util.placement_group import placement_group, remove_placement_group
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy
from tests.cluster.conftest import everything_free
from tests.cluster.remote_code import Counter, increment
from tests.cluster.waiting import until

NODES = 4
ROUND_S = 20


def group_round() -> None:
    """A group with an actor in it, there for a moment."""
    group = placement_group([{"CPU": 1}] * 3, strategy="SPREAD")
    shoal.get(group.ready(), timeout=ROUND_S)
    inside = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=0)
    counter = Counter.options(num_cpus=1, scheduling_strategy=inside).remote()
    assert shoal.get(counter.add.remote(), timeout=ROUND_S) == 1
    remove_placement_group(group)


def spread_round() -> None:
    """One that may lose a node: it is removed whether or not it was placed."""
    group = placement_group([{"CPU": 1}] * 2, strategy="STRICT_SPREAD", on_loss="restart")
    group.wait(1)
    remove_placement_group(group)


def task_round() -> None:
    assert shoal.get([increment.remote(i) for i in range(10)], timeout=ROUND_S)[-1] == 10


class Churn:
    """Rounds of each kind, over and over, until told to stop; then errors are raised here."""

    def __init__(self, rounds: list[Callable[[], None]]) -> None:
        self._stopped = threading.Event()
        self._errors: list[Exception] = []
        self.done = [0] * len(rounds)
        self._seen = list(self.done)
        self._threads = [
            threading.Thread(target=self._run, args=(number, one))
            for number, one in enumerate(rounds)
        ]

    def _run(self, number: int, one: Callable[[], None]) -> None:
        try:
            while not self._stopped.is_set():
                one()
                self.done[number] += 1
        except Exception as error:  # noqa: BLE001 - raised again where the test sees it
            self._errors.append(error)

    def went_on(self) -> bool:
        """Whether a round of each kind ended since this was last true."""
        every = all(now > then for now, then in zip(self.done, self._seen, strict=True))
        if every:
            self._seen = list(self.done)
        return every

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]


def checked(cluster: Cluster) -> str:
    program = str(Path(sys.executable).with_name("shoal"))
    done = subprocess.run(
        [program, "check-ledger", "--address", cluster.address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_books_agree_while_everything_changes(make_cluster):
    cluster = make_cluster(num_cpus=0)
    for _ in range(NODES):
        cluster.add_node(wait=False, num_cpus=4)
    cluster.wait_for_nodes()
    with Churn([spread_round, task_round]) as churn:
        assert "agree" in checked(cluster)
        until(churn.went_on, "every kind of round went on")
        cluster.worker_nodes[0].kill()
        assert "agree" in checked(cluster)
        cluster.add_node(num_cpus=4)
        assert "agree" in checked(cluster)
    with Churn([group_round, task_round]) as churn:
        assert "agree" in checked(cluster)
        until(churn.went_on, "every kind of round went on")
    until(everything_free, "everything is free again")
    assert "of 5 nodes and 0 bundles agree" in checked(cluster)
