"""`python -m benchmarks.gcs_kills --kills 200`: the control service is killed at random moments.

A cluster of real processes is kept busy: groups come and go, keys are put, named detached actors
are made, tasks and actor calls run. After each kill the service is started again, and everything is
asked for: who was acknowledged, who ran, who waited, and whether all books agree.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

import shoal
from shoal.cluster_utils import Cluster
from shoal.exceptions import RayError
from shoal.gcs_calls import GcsCalls
from shoal.util import kv
from shoal.util.placement_group import placement_group, remove_placement_group

KILLS = 200
NODES = 3
NODE_CPUS = 4
CHURN_S_MAX = 0.4
"""The service dies at a random moment of its life, up to this age under load."""
BACK_TARGET_S = 1.0
DEADLINE_S = 30.0
NAMED_KEPT = 5
NAMESPACE = "kills"


@shoal.remote(num_cpus=0)
class Steady:
    """Counts its calls: a restart would begin again."""

    def __init__(self) -> None:
        self._calls = 0

    def call(self) -> int:
        """How often it was called."""
        self._calls += 1
        return self._calls


@shoal.remote(num_cpus=0)
def double(number: int) -> int:
    return 2 * number


@dataclass
class Acknowledged:
    """What the service said yes to: it must be there after any kill."""

    keys: dict[str, bytes] = field(default_factory=dict[str, bytes])
    names: list[str] = field(default_factory=list[str])
    numbers: Iterator[int] = field(default_factory=itertools.count)


class Churn:
    """Threads that use everything the service decides, until the block ends."""

    def __init__(self, acknowledged: Acknowledged) -> None:
        self._acknowledged = acknowledged
        self._stop = threading.Event()
        self.errors: list[str] = []
        self.groups_made = 0
        works = (self._groups, self._groups, self._keys, self._actors, self._tasks)
        self._threads = [
            threading.Thread(target=self._run, args=(work,), daemon=True) for work in works
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            if thread.is_alive():
                self.errors.append(f"{thread.name} waits for something that never came")

    def _run(self, work: Callable[[], None]) -> None:
        while not self._stop.is_set():
            try:
                work()
            except (RayError, ValueError, AssertionError) as error:
                self.errors.append(f"{work.__name__}: {type(error).__name__}: {error}")
                return

    def _groups(self) -> None:
        group = placement_group([{"CPU": 1}] * 2, strategy="SPREAD")
        try:
            shoal.get(group.ready(), timeout=DEADLINE_S)
            self.groups_made += 1
        finally:
            remove_placement_group(group)

    def _keys(self) -> None:
        name = f"key-{next(self._acknowledged.numbers)}"
        value = name.encode()
        assert kv.put(name, value).written, name
        self._acknowledged.keys[name] = value

    def _actors(self) -> None:
        name = f"actor-{next(self._acknowledged.numbers)}"
        actor = Steady.options(name=name, lifetime="detached").remote()
        assert shoal.get(actor.call.remote(), timeout=DEADLINE_S) == 1
        self._acknowledged.names.append(name)
        if len(self._acknowledged.names) > NAMED_KEPT:
            oldest = self._acknowledged.names.pop(0)
            shoal.kill(shoal.get_actor(oldest))

    def _tasks(self) -> None:
        assert shoal.get(double.remote(21), timeout=DEADLINE_S) == 42


def run(kills: int, seed: int) -> dict[str, Any]:
    """All kills; the figures and what went wrong."""
    dice = random.Random(seed)  # noqa: S311 - moments, no secret
    acknowledged = Acknowledged()
    back_s: list[float] = []
    problems: list[str] = []
    groups_made = 0
    started = time.monotonic()
    with _cluster() as cluster:
        steady = Steady.remote()
        calls = shoal.get(steady.call.remote())
        kept = placement_group([{"CPU": 1}] * NODES, strategy="STRICT_SPREAD", name="kept")
        shoal.get(kept.ready(), timeout=DEADLINE_S)
        for number in range(kills):
            with Churn(acknowledged) as churn:
                time.sleep(dice.uniform(0, CHURN_S_MAX))  # the random moment itself
                cluster.kill_gcs()
                calls += 1
                if shoal.get(steady.call.remote(), timeout=DEADLINE_S) != calls:
                    problems.append(f"kill {number}: the running actor noticed")
                cluster.start_gcs()
                back_s.append(_back_after(cluster))
            groups_made += churn.groups_made
            found = [*churn.errors, *_missing(acknowledged)]
            if kept.id.hex() not in _created(cluster):
                found.append("the group that was there is not CREATED")
            problems += [f"kill {number}: {text}" for text in found]
            try:
                cluster.check_ledger()
            except AssertionError as error:
                problems.append(f"kill {number}: {error}")
    ordered = sorted(back_s)
    return {
        "kills": kills,
        "seed": seed,
        "problems": problems,
        "back_s_p50": round(ordered[len(ordered) // 2], 3),
        "back_s_max": round(ordered[-1], 3),
        "back_within_1_s": sum(each <= BACK_TARGET_S for each in ordered),
        "keys_acknowledged": len(acknowledged.keys),
        "groups_made": groups_made,
        "seconds": round(time.monotonic() - started, 1),
    }


def _back_after(cluster: Cluster) -> float:
    """Seconds from the open port until every node is back and a driver's question is answered."""
    opened = time.monotonic()
    end = opened + DEADLINE_S
    wanted = {node.node_id for node in cluster.nodes}
    with GcsCalls(cluster.gcs_address) as gcs:
        while time.monotonic() < end:
            # A node of the last life is listed before it is back: its session is what counts.
            if gcs.status().counters["subscriptions.node_changes"] >= len(wanted):
                kv.exists("any")
                return time.monotonic() - opened
            time.sleep(0.002)
    raise TimeoutError(f"not all nodes were back after {DEADLINE_S:g} s")


def _missing(acknowledged: Acknowledged) -> Iterator[str]:
    stored = kv.multi_get(list(acknowledged.keys))
    lost = [name for name, value in acknowledged.keys.items() if stored.get(name.encode()) != value]
    if lost:
        yield f"{len(lost)} acknowledged keys are gone, such as {lost[0]}"
    for name in acknowledged.names:
        try:
            shoal.get(shoal.get_actor(name).call.remote(), timeout=DEADLINE_S)
        except (RayError, ValueError) as error:
            yield f"actor {name}: {error}"


def _created(cluster: Cluster) -> set[str]:
    with GcsCalls(cluster.gcs_address) as gcs:
        groups = gcs.groups().groups
    return {g.spec.placement_group_id.hex() for g in groups if all(g.bundle_nodes)}


@contextmanager
def _cluster() -> Generator[Cluster]:
    with Cluster(initialize_head=True, head_node_args={"num_cpus": NODE_CPUS}) as cluster:
        for _ in range(NODES - 1):
            cluster.add_node(num_cpus=NODE_CPUS)
        cluster.connect(namespace=NAMESPACE)
        yield cluster


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    result = run(arguments.kills, arguments.seed)
    print(json.dumps(result, indent=1))
    raise SystemExit(1 if result["problems"] else 0)


if __name__ == "__main__":
    main()
