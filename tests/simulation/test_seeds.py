"""Small, nasty clusters: every seed is another history of faults. First faults, then calm."""

import pytest

from cluster_simulator import scenarios
from cluster_simulator.run import simulate

SEEDS = {
    "racks": range(5),
    "churn": range(30),
    "owner_death": range(35),
    "drain_waves": range(30),
    "late_sync": range(10),
    "mixed": range(40),
    "storm": range(50),
}
TENTHS = 10


def test_two_hundred_seeds_are_asked():
    assert sum(len(seeds) for seeds in SEEDS.values()) == 200


@pytest.mark.parametrize("tenth", range(TENTHS))
@pytest.mark.parametrize("name", SEEDS)
def test_invariants_hold_whatever_fails(name, tenth):
    for seed in SEEDS[name][tenth::TENTHS]:
        simulate(scenarios.BY_NAME[name], seed)


# Seeds that fail without the fix of what they found.
FOUND = [
    # A driver died that no agent watched (not yet, or no more): its job never ended.
    ("owner_death", 10),
    ("owner_death", 26),
    # Agents that registered while the scheduler was away never heard of it.
    ("storm", 8),
    # A registration of an earlier stream came late and replaced the newer one.
    ("storm", 64),
    ("storm", 93),
    # A refusal told again by a node that was asked before moved a running detached actor.
    ("mixed", 26),
]


@pytest.mark.parametrize(("name", "seed"), FOUND)
def test_what_was_found_stays_fixed(name, seed):
    simulate(scenarios.BY_NAME[name], seed)
