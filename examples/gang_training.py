"""A gang: bundles placed all or nothing, one worker in each, restarted when one dies.

`python examples/gang_training.py` starts a cluster on this machine.
"""

from __future__ import annotations

import os
import signal

import shoal
from shoal.util.placement_group import placement_group, remove_placement_group
from shoal.util.scheduling_strategies import PlacementGroupSchedulingStrategy

WORKERS = 4
STEPS = 5
READY_TIMEOUT_S = 30


@shoal.remote(num_cpus=1, max_restarts=3, max_task_retries=-1)
class Worker:
    """One rank of the gang; its part of the data follows from the rank."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.data = [float(value) for value in range(rank, 1000, WORKERS)]

    def pid(self) -> int:
        """The process this rank lives in now."""
        return os.getpid()

    def slope(self, guess: float) -> tuple[float, int]:
        """Sum of the slopes of (guess - value)² over this rank's data, and their number."""
        return sum(2 * (guess - value) for value in self.data), len(self.data)


def main() -> None:
    shoal.init(num_cpus=WORKERS)
    gang = placement_group([{"CPU": 1}] * WORKERS, strategy="PACK", name="training")
    shoal.get(gang.ready(), timeout=READY_TIMEOUT_S)
    workers = [
        Worker.options(scheduling_strategy=PlacementGroupSchedulingStrategy(gang, rank)).remote(
            rank
        )
        for rank in range(WORKERS)
    ]
    guess = 0.0
    for step in range(STEPS):
        if step == STEPS // 2:
            os.kill(shoal.get(workers[0].pid.remote()), signal.SIGKILL)
            print("killed rank 0; its calls are repeated on its successor")
        parts = shoal.get([worker.slope.remote(guess) for worker in workers])
        guess -= 0.5 * sum(slope for slope, _ in parts) / sum(count for _, count in parts)
        print(f"step {step}: the mean is about {guess:.3f}")
    remove_placement_group(gang)
    shoal.shutdown()


if __name__ == "__main__":
    main()
