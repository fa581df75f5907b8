"""Tasks, references and an actor in one page: `python examples/hello_tasks.py`.

With `SHOAL_ADDRESS` set it runs on that cluster; without, it starts one on this machine.
"""

from __future__ import annotations

import shoal

NUMBERS = 20


@shoal.remote
def square(number: int) -> int:
    return number * number


@shoal.remote
def total(*numbers: int) -> int:
    return sum(numbers)


@shoal.remote(num_cpus=0)
class Tally:
    """Counts what it is told; its state lives in one worker process."""

    def __init__(self) -> None:
        self.seen = 0

    def add(self, number: int) -> int:
        """The sum so far."""
        self.seen += number
        return self.seen


def main() -> None:
    shoal.init()
    squares = [square.remote(number) for number in range(NUMBERS)]
    # References are passed on as they are: `total` starts once they are there.
    print("sum of squares:", shoal.get(total.remote(*squares)))

    tally = Tally.remote()
    waiting = squares
    while waiting:
        (done,), waiting = shoal.wait(waiting)
        tally.add.remote(shoal.get(done))
    print("the same, one by one:", shoal.get(tally.add.remote(0)))
    shoal.shutdown()


if __name__ == "__main__":
    main()
