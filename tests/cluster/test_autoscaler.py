"""Demand and the reference autoscaler with real processes (FIELD_REPORTS O-23)."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
import yaml

import shoal
from shoal.cluster_utils import Cluster
from shoal.util import placement_group
from shoal.util.autoscaler import ClusterResourceState, cluster_resource_state, request_resources
from shoal.util.placement_group import remove_placement_group
from tests.cluster.waiting import lives_on, until

TRAINERS = 32
DEADLINE_S = 60.0


@shoal.remote
class Trainer:
    def ping(self) -> int:
        return 1


def make_trainers(count: int) -> list[object]:
    return [Trainer.options(resources={"trainer": 1}).remote() for _ in range(count)]


def split(state: ClusterResourceState, resource: str = "trainer") -> tuple[int, int]:
    """How many requests for the resource wait, and how many have it."""
    shapes = [*state.pending, *state.infeasible]
    waiting = sum(shape.count for shape in shapes if resource in shape.resources)
    used = sum(node.used.get(resource, 0) for node in state.nodes if node.status != "DEAD")
    return waiting, round(used)


def of_type(state: ClusterResourceState, name: str) -> int:
    return sum(node.node_type == name and node.status != "DEAD" for node in state.nodes)


class Reader:
    """Reads snapshots one after another in a thread, and keeps those that break a rule."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
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
            waiting, used = split(state)
            if waiting + used != self.wanted:
                self.wrong.append((state.version, waiting, used))
            self.most_nodes = max(self.most_nodes, of_type(state, "trainer"))
            self.read += 1


@pytest.fixture
def head(make_cluster) -> Cluster:
    return make_cluster(num_cpus=2)


@contextmanager
def autoscaler(cluster: Cluster, folder: Path, **config: object) -> Iterator[None]:
    """`shoal autoscaler` with this configuration, ended in order."""
    setup = {"provider": {"type": "local", "temp_dir": str(folder / "t")}, **config}
    file = folder / "nodes.yaml"
    file.write_text(yaml.safe_dump(setup), encoding="utf-8")
    program = [str(Path(sys.executable).with_name("shoal")), "autoscaler"]
    with (folder / "autoscaler.err").open("wb") as errors:
        process = subprocess.Popen(
            [*program, "--config", str(file), "--address", cluster.address], stderr=errors
        )
        try:
            yield
        finally:
            process.terminate()
            code = process.wait(30)
    assert code == 0, (folder / "autoscaler.err").read_text(encoding="utf-8")


def trainer_type(most: int) -> dict[str, object]:
    return {"trainer": {"resources": {"CPU": 1, "trainer": 1}, "max_nodes": most}}


@pytest.mark.xfail(
    strict=False,
    reason="known defect: on a loaded machine an answer was seen that counts 33 for 32. Suspected, "
    "from reading: the snapshot of the agent that took a request overtakes the demand report of "
    "the one that sent it",
)
def test_pending_and_running_add_up_in_every_snapshot_while_nodes_come_two_by_two(head):
    actors = make_trainers(TRAINERS)
    until(lambda: split(cluster_resource_state()) == (TRAINERS, 0), "all wait")
    with Reader(TRAINERS) as reader:
        for step in range(1, TRAINERS // 2 + 1):
            for _ in range(2):
                head.add_node(num_cpus=1, resources={"trainer": 1}, wait=False)
            until(
                lambda step=step: (
                    split(cluster_resource_state()) == (TRAINERS - 2 * step, 2 * step)
                ),
                f"{2 * step} run",
                DEADLINE_S,
            )
        assert shoal.get([actor.ping.remote() for actor in actors], timeout=DEADLINE_S)
    assert reader.wrong == []
    assert reader.read > TRAINERS


@pytest.mark.xfail(
    strict=False,
    reason="known defect: on a loaded machine the number of nodes was not 32 once. Suspected: the "
    "double count of the test above buys one too many",
)
def test_32_actors_lead_to_exactly_32_nodes_and_idle_nodes_go(head, tmp_path):
    with autoscaler(head, tmp_path, idle_timeout_s=1, node_types=trainer_type(TRAINERS + 8)):
        actors = make_trainers(TRAINERS)
        until(lambda: sum(split(cluster_resource_state())) == TRAINERS, "all are counted")
        with Reader(TRAINERS) as reader:
            assert shoal.get([actor.ping.remote() for actor in actors], timeout=DEADLINE_S)
            nodes = lambda: of_type(cluster_resource_state(), "trainer")
            lives_on(lambda: nodes() == TRAINERS, "as many nodes as actors", 0.6)
        # That the sums are exact in each snapshot is the test above, with its known defect.
        assert reader.most_nodes == TRAINERS
        del actors
        until(lambda: nodes() == 0, "idle nodes go", DEADLINE_S)


def test_a_gang_is_bought_whole_or_not_at_all(head, tmp_path):
    nodes = lambda: of_type(cluster_resource_state(), "trainer")
    with autoscaler(head, tmp_path, idle_timeout_s=300, node_types=trainer_type(4)):
        too_large = placement_group([{"trainer": 1}] * 5, strategy="STRICT_SPREAD")
        until(lambda: len(cluster_resource_state().gangs) == 1, "the gang is demand")
        lives_on(lambda: nodes() == 0, "nothing is bought for a part of a gang", 1.0)
        status = json.loads(run_status(head))
        assert status["autoscaler"]["infeasible_gangs"] == [too_large.id.hex()]
        fits = placement_group([{"trainer": 1}] * 4, strategy="STRICT_SPREAD")
        shoal.get(fits.ready(), timeout=DEADLINE_S)
        assert nodes() == 4
        assert [gang.placement_group_id for gang in cluster_resource_state().gangs] == [
            too_large.id.hex()
        ]
        for group in (too_large, fits):
            remove_placement_group(group)


def test_a_requested_floor_is_held_without_demand_and_ends_with_its_request(head, tmp_path):
    nodes = lambda: of_type(cluster_resource_state(), "trainer")
    with autoscaler(head, tmp_path, idle_timeout_s=0.5, node_types=trainer_type(5)):
        request_resources(bundles=[{"trainer": 1}] * 3)
        until(lambda: nodes() == 3, "the floor is bought", DEADLINE_S)
        state = cluster_resource_state()
        assert (state.pending, state.infeasible) == ([], [])
        assert sum(row.count for row in state.constraints) == 3
        lives_on(lambda: nodes() == 3, "the floor stays", 1.5)
        request_resources()
        until(lambda: nodes() == 0, "without a floor idle nodes go", DEADLINE_S)


def test_infeasible_demand_shows_in_status_at_once(head):
    waiting = Trainer.options(resources={"moon": 2}).remote()
    rows = until(
        lambda: [row for row in json.loads(run_status(head))["demand"] if row["infeasible"]],
        "status names it",
    )
    assert rows[0]["resources"]["moon"] == 2
    assert waiting is not None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"bundles": [{}]}, ValueError),
        ({"bundles": [{"CPU": -1}]}, ValueError),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": []}, None),
        ({"bundles": [{"CPU": 1}], "bundle_label_selectors": [{}, {}]}, ValueError),
        ({"num_cpus": -1}, ValueError),
    ],
)
def test_senseless_floors_are_refused_at_the_call(one_node, arguments, error):
    if error is None:
        request_resources(**arguments)
        request_resources()
        return
    with pytest.raises(error):
        request_resources(**arguments)


def run_status(cluster: Cluster) -> str:
    program = str(Path(sys.executable).with_name("shoal"))
    command = [program, "status", "--json", "--address", cluster.address]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout
