"""The demo's arithmetic: repeatable to the last bit, and it finds the weights."""

from __future__ import annotations

from shoal.demo import job


def test_a_shard_is_the_same_whenever_it_is_made():
    weights = (0.1, 0.2, 0.3)
    assert job.Shard(3, 50).gradient(weights) == job.Shard(3, 50).gradient(weights)
    assert job.Shard(3, 50).gradient(weights) != job.Shard(4, 50).gradient(weights)


def test_the_reference_run_equals_its_steps_taken_one_by_one():
    shards = [job.Shard(seed, 40) for seed in range(3)]
    weights = job.start_weights()
    for expected in job.reference_run(shards=3, rows=40, steps=5):
        weights, _ = job.step(weights, [shard.gradient(weights) for shard in shards])
        assert weights == expected


def test_the_error_falls_and_the_true_weights_are_found():
    history = job.reference_run(shards=12, rows=400, steps=30)
    assert (
        max(abs(found - true) for found, true in zip(history[-1], job.TRUE_WEIGHTS, strict=True))
        < job.WEIGHT_ERROR_MAX
    )
