"""The reset of reservations every three seconds, as others have it, must be seen by a checker."""

import pytest

from cluster_simulator import scenarios
from cluster_simulator.failure import SimulationFailedError
from cluster_simulator.run import RunOptions, simulate


@pytest.mark.parametrize("seed", range(5))
def test_forgetting_reservations_is_seen_and_not_forgetting_is_right(seed):
    scenario = scenarios.BY_NAME["late_sync"]
    simulate(scenario, seed)
    with pytest.raises(SimulationFailedError, match="prepares_fit"):
        simulate(scenario, seed, options=RunOptions(forgetful=True))
