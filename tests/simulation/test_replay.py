"""A seed is a history: the same in another process, whatever its hash seed, failures included."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_simulator import scenarios
from cluster_simulator.failure import SimulationFailedError
from cluster_simulator.run import RunOptions, simulate

ROOT = Path(__file__).resolve().parents[2]
DIGEST = """
from cluster_simulator import scenarios
from cluster_simulator.run import simulate
for name in ("storm", "mixed", "churn", "drain_waves"):
    for seed in (1, 2, 5):
        result = simulate(scenarios.BY_NAME[name], seed)
        print(name, seed, result.digest, result.events)
"""
FAILURE = """
from cluster_simulator import scenarios
from cluster_simulator.run import RunOptions, simulate
try:
    simulate(scenarios.BY_NAME["late_sync"], 1, options=RunOptions(forgetful=True))
except AssertionError as error:
    print(error)
"""


def under(hash_seed, program):
    env = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=env, capture_output=True, check=True
    )
    return done.stdout.decode()


def test_a_seed_gives_the_same_events_under_another_hash_seed():
    first = under("1", DIGEST)
    assert first.count("\n") == 12
    assert under("4242", DIGEST) == first


def test_a_failure_replays_exactly_under_another_hash_seed():
    first = under("7", FAILURE)
    assert "prepares_fit" in first
    assert under("8", FAILURE) == first


def test_a_failure_tells_seed_scenario_and_the_last_events_of_who_was_involved():
    scenario = scenarios.BY_NAME["late_sync"]
    with pytest.raises(SimulationFailedError) as caught:
        simulate(scenario, 0, options=RunOptions(forgetful=True))
    error = caught.value
    assert (error.scenario, error.seed) == ("late_sync", 0)
    assert "seed 0" in str(error)
    assert "./run simulate late_sync --nodes 8 --seed 0" in str(error)
    assert any("PREPARE" in line for line in error.story)
    assert not any("differently" in line or "not deterministic" in line for line in error.story)
