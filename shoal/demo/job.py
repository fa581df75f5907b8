"""The job of the demo: linear regression by gradient averaging, each worker with its own shard.

The same functions run in the actors and in the check, and sums are taken in the same order, so the
distributed result must equal the single-process one to the last bit.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

TRUE_WEIGHTS = (3.0, -2.0, 0.5)
NOISE = 0.01
LEARNING_RATE = 0.6
WEIGHT_ERROR_MAX = 0.02
"""How far the found weights may be from the true ones after the last step."""


@dataclass(frozen=True)
class Gradient:
    """What one shard says about the current weights."""

    slopes: tuple[float, ...]
    squared_error: float
    rows: int


@dataclass(frozen=True)
class Place:
    """Where an actor lives: node (hex) and pid."""

    node_id: str
    pid: int


class Shard:
    """Rows made from a seed, so that a restarted worker has the same ones again."""

    def __init__(self, seed: int, rows: int) -> None:
        random = Random(seed)  # noqa: S311 - test data, no secret
        self.inputs = [tuple(random.uniform(-1.0, 1.0) for _ in TRUE_WEIGHTS) for _ in range(rows)]
        self.targets = [
            _predict(TRUE_WEIGHTS, row) + random.gauss(0.0, NOISE) for row in self.inputs
        ]

    def gradient(self, weights: Sequence[float]) -> Gradient:
        """Slopes of the squared error at `weights`, summed over the shard."""
        slopes = [0.0] * len(weights)
        squared_error = 0.0
        for row, target in zip(self.inputs, self.targets, strict=True):
            error = _predict(weights, row) - target
            squared_error += error * error
            for index, value in enumerate(row):
                slopes[index] += 2.0 * error * value
        return Gradient(tuple(slopes), squared_error, len(self.inputs))


class Trainer:
    """The actor: one shard, and where it is."""

    def __init__(self, seed: int, rows: int) -> None:
        self._shard = Shard(seed, rows)

    def gradient(self, weights: Sequence[float]) -> Gradient:
        """The shard's gradient."""
        return self._shard.gradient(weights)

    def place(self) -> Place:
        """Where this actor runs now."""
        from shoal import get_runtime_context

        return Place(get_runtime_context().get_node_id(), os.getpid())


def step(
    weights: Sequence[float], gradients: Sequence[Gradient]
) -> tuple[tuple[float, ...], float]:
    """One descent along the averaged gradient: the new weights, the mean squared error before."""
    rows = sum(gradient.rows for gradient in gradients)
    slopes = [
        sum(gradient.slopes[index] for gradient in gradients) for index in range(len(weights))
    ]
    moved = tuple(
        weight - LEARNING_RATE * slope / rows for weight, slope in zip(weights, slopes, strict=True)
    )
    return moved, sum(gradient.squared_error for gradient in gradients) / rows


def start_weights() -> tuple[float, ...]:
    """Where every run begins."""
    return (0.0,) * len(TRUE_WEIGHTS)


def reference_run(shards: int, rows: int, steps: int) -> list[tuple[float, ...]]:
    """The weights after each step, computed in this process alone."""
    parts = [Shard(seed, rows) for seed in range(shards)]
    weights = start_weights()
    history: list[tuple[float, ...]] = []
    for _ in range(steps):
        weights, _ = step(weights, [part.gradient(weights) for part in parts])
        history.append(weights)
    return history


def _predict(weights: Sequence[float], row: Sequence[float]) -> float:
    return sum(weight * value for weight, value in zip(weights, row, strict=True))
