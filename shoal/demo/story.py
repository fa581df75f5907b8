"""The story: six nodes in two racks, a gang on each rack, a death in the middle, right numbers."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import shoal
from shoal.cluster_utils import Cluster, ClusterNode
from shoal.demo import job
from shoal.demo.interrupts import held_interrupts
from shoal.demo.screen import Phase, Screen
from shoal.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy

RACKS = ("rack-1", "rack-2")
NODES_PER_RACK = 3
ACTORS_PER_BUNDLE = 2
NODE_CPUS = 2
STEPS = 30
KILL_AT_STEP = 12
ROWS_PER_SHARD = 400
DEADLINE_S = 30.0
LOOK_AGAIN_S = 0.002


class Story:
    """Plays the main job; `close` ends what `play` started, however far it came."""

    def __init__(self, screen: Screen, marker: dict[str, str]) -> None:
        self.checks: list[tuple[str, bool]] = []
        self.session_path: Path | None = None
        self._screen = screen
        self._marker = marker
        self._cluster: Cluster | None = None
        self._groups: list[PlacementGroup] = []
        self._trainers: list[Any] = []
        self._racks: dict[str, str] = {}

    def play(self) -> None:
        """All phases in order.

        Raises:
            TimeoutError: a phase did not end within 30 s; the message says which and why.
        """
        shards = len(RACKS) * NODES_PER_RACK * ACTORS_PER_BUNDLE
        self._start_cluster()
        self._create_groups()
        self._start_trainers()
        with self._screen.phase("the same job in one process, to check against"):
            expected = job.reference_run(shards, ROWS_PER_SHARD, STEPS)
        self._train(expected)
        with self._screen.phase("groups removed"):
            for group in self._groups:
                remove_placement_group(group)

    def close(self) -> None:
        """End driver, agents and GCS, in this order."""
        if self._cluster is not None:
            self._cluster.shutdown()

    def _start_cluster(self) -> None:
        with self._screen.phase("GCS and 6 agents started") as phase:
            # Nothing runs yet, but a folder exists as soon as this object does.
            with held_interrupts():
                cluster = self._cluster = Cluster(env_vars=self._marker)
                self.session_path = cluster.session.path
            nodes = [
                (rack, self._add_node(cluster, rack))
                for _ in range(NODES_PER_RACK)
                for rack in RACKS
            ]
            cluster.wait_for_nodes(timeout=DEADLINE_S)
            self._racks = {node.node_id: rack for rack, node in nodes}
            phase.where = f"{len(RACKS)} racks x {NODES_PER_RACK} nodes, GCS {cluster.address}"
        with self._screen.phase("driver connected"):
            cluster.connect()

    def _add_node(self, cluster: Cluster, rack: str, *, wait: bool = False) -> ClusterNode:
        return cluster.add_node(wait=wait, num_cpus=NODE_CPUS, labels={"rack": rack})

    def _create_groups(self) -> None:
        with self._screen.phase("2 placement groups ready") as phase:
            self._groups = [
                placement_group(
                    [{"CPU": NODE_CPUS}] * NODES_PER_RACK,
                    strategy="STRICT_SPREAD",
                    name=f"gang-{number}",
                    topology_strategy={"rack": "STRICT_PACK"},
                )
                for number in range(len(RACKS))
            ]
            shoal.get([group.ready() for group in self._groups], timeout=DEADLINE_S)
            used = [self._racks_of(group) for group in self._groups]
            phase.where = ", ".join("+".join(sorted(racks)) for racks in used)
        self._check(
            "each group is on three nodes of one rack, the groups on different racks",
            all(len(racks) == 1 for racks in used)
            and len(set[str]().union(*used)) == len(RACKS)
            and all(len(set(_nodes_of(group))) == NODES_PER_RACK for group in self._groups),
        )

    def _start_trainers(self) -> None:
        trainer = shoal.remote(num_cpus=1, max_restarts=1, max_task_retries=-1)(job.Trainer)
        with self._screen.phase("12 actors answered") as phase:
            slots = [
                PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=index)
                for group in self._groups
                for index in range(NODES_PER_RACK)
                for _ in range(ACTORS_PER_BUNDLE)
            ]
            self._trainers = [
                trainer.options(scheduling_strategy=slot).remote(seed, ROWS_PER_SHARD)
                for seed, slot in enumerate(slots)
            ]
            places = self._places()
            phase.where = f"{len({place.node_id for place in places})} nodes"
        wanted = [
            node
            for group in self._groups
            for node in _nodes_of(group)
            for _ in range(ACTORS_PER_BUNDLE)
        ]
        self._check(
            "every actor runs on the node of its bundle",
            [place.node_id for place in places] == wanted,
        )

    def _train(self, expected: list[tuple[float, ...]]) -> None:
        start = time.perf_counter()
        weights, loss = job.start_weights(), 0.0
        wrong_steps: list[int] = []
        with self._screen.progress() as progress:
            bar = progress.add_task("training", total=STEPS, detail="")
            for number in range(STEPS):
                before = self._places() if number == KILL_AT_STEP else []
                references = [trainer.gradient.remote(weights) for trainer in self._trainers]
                if number == KILL_AT_STEP:
                    self._lose_and_replace_a_node(before)
                weights, loss = job.step(weights, shoal.get(references, timeout=DEADLINE_S))
                if weights != expected[number]:
                    wrong_steps.append(number)
                progress.update(bar, advance=1, detail=f"error {loss:.2e}")
        where = f"{STEPS} steps on {len(self._trainers)} shards, mean squared error {loss:.1e}"
        self._screen.add(Phase("job finished", where, time.perf_counter() - start))
        self._check("every step equals the single-process run to the last bit", not wrong_steps)
        far = max(abs(a - b) for a, b in zip(weights, job.TRUE_WEIGHTS, strict=True))
        self._check(f"the true weights were found (off by {far:.1e})", far < job.WEIGHT_ERROR_MAX)

    def _lose_and_replace_a_node(self, before: list[job.Place]) -> None:
        """SIGKILL an agent under the last group while its calls run, then let a spare node join."""
        assert self._cluster is not None
        victim = next(
            node
            for node in self._cluster.worker_nodes
            if node.node_id in _nodes_of(self._groups[-1])
        )
        victim_id, rack = victim.node_id, self._racks[victim.node_id]
        with self._screen.phase("agent killed (SIGKILL), loss seen by its group") as phase:
            victim.kill()
            _until(
                lambda: placement_group_table(self._groups[-1])["state"] != "CREATED",
                "the group did not notice that it lost a node",
            )
            phase.where = f"node {victim_id[:8]} in {rack}"
        state = placement_group_table(self._groups[-1])
        self._screen.say(f"  [dim]{state['state']}: {state.get('message', '')}[/dim]")
        with self._screen.phase("spare node joined") as phase:
            spare = self._add_node(self._cluster, rack, wait=True)
            self._racks[spare.node_id] = rack
            phase.where = f"node {spare.node_id[:8]} in {rack}"
        with self._screen.phase("group whole again, lost actors answered") as phase:
            shoal.get(self._groups[-1].ready(), timeout=DEADLINE_S)
            after = self._places()
            moved = [new for old, new in zip(before, after, strict=True) if old != new]
            phase.where = f"{len(moved)} actors restarted on node {spare.node_id[:8]}"
        self._check(
            "only the lost bundle moved, onto the spare node, with both of its actors",
            len(moved) == ACTORS_PER_BUNDLE
            and {place.node_id for place in moved} == {spare.node_id}
            and all(old.node_id == victim_id for old in before if old not in after),
        )

    def _places(self) -> list[job.Place]:
        return shoal.get([each.place.remote() for each in self._trainers], timeout=DEADLINE_S)

    def _racks_of(self, group: PlacementGroup) -> set[str]:
        return {self._racks[node] for node in _nodes_of(group)}

    def _check(self, what: str, right: bool) -> None:  # noqa: FBT001 - reads as a sentence
        self.checks.append((what, right))


def _nodes_of(group: PlacementGroup) -> list[str]:
    """Hex ids of the nodes of a group's bundles, by bundle index."""
    nodes: dict[int, str] = placement_group_table(group)["bundles_to_node_id"]
    return [nodes[index] for index in sorted(nodes)]


def _until(condition: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{failure} within {DEADLINE_S:g} s")
        time.sleep(LOOK_AGAIN_S)
