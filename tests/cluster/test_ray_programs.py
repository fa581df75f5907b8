"""Ordinary Ray core programs, unchanged, with `import ray` answered by the shim."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from shoal.cluster_utils import Cluster
from tests.cluster.drivers import DRIVER_DEADLINE_S, environment

TESTS = Path(__file__).parents[1]
PROGRAMS = TESTS / "ray_programs"
ALONE = [
    "actor_pool_and_queue",
    "errors_and_retries",
    "monte_carlo_pi",
    "parameter_server",
    "placement_group_gang",
    "signal_actor",
    "tree_reduce",
    "word_count",
]


def run(name: str, cluster: Cluster) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAMS / f"{name}.py")],
        env=environment(cluster.address) | {"PYTHONPATH": str(TESTS / "shim")},
        capture_output=True,
        text=True,
        timeout=DRIVER_DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "done", done.stdout + done.stderr


@pytest.mark.parametrize("name", ALONE)
def test_a_program_runs_to_its_end(name, one_node, settled):
    run(name, one_node)


def test_two_drivers_share_a_detached_actor_by_name(one_node, settled):
    run("named_actor_first", one_node)
    run("named_actor_second", one_node)


def test_every_program_is_run():
    names = {path.stem for path in PROGRAMS.glob("*.py")}
    assert names == {*ALONE, "named_actor_first", "named_actor_second"}
