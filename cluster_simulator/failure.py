"""What a failed run says: seed, scenario, the broken invariant, last events of the objects."""

from __future__ import annotations

from collections.abc import Sequence


class InvariantError(AssertionError):
    """An invariant does not hold. `about`: ids of the objects involved."""

    def __init__(self, checker: str, message: str, about: Sequence[bytes] = ()) -> None:
        super().__init__(f"{checker}: {message}")
        self.about = tuple(about)


class SimulationFailedError(AssertionError):
    """A run failed. The message has what is needed to see it again."""

    def __init__(
        self, scenario: str, seed: int, nodes: int, at_ms: int, problem: str, story: Sequence[str]
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.at_ms = at_ms
        self.problem = problem
        self.story = tuple(story)
        lines = "\n".join(f"    {line}" for line in story) or "    (none)"
        super().__init__(
            f"scenario {scenario}, seed {seed}, {nodes} nodes, at {at_ms} ms: {problem}\n"
            f"  last events of the objects involved:\n{lines}\n"
            f"  again: ./run simulate {scenario} --nodes {nodes} --seed {seed}"
        )
