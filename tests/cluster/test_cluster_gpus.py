"""GPU devices: which ones work sees, and that a reused worker does not keep those of its last."""

from __future__ import annotations

import os

import pytest

import shoal


@pytest.fixture
def cluster(make_cluster):
    return make_cluster(num_cpus=1, num_gpus=2)


@shoal.remote
def seen() -> tuple[int, list[int], str | None]:
    return os.getpid(), shoal.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


@shoal.remote(num_gpus=1)
class Holder:
    def seen(self) -> tuple[list[int], str | None]:
        return shoal.get_gpu_ids(), os.environ.get("CUDA_VISIBLE_DEVICES")


def test_a_worker_sees_the_devices_of_its_present_lease_only(cluster):
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
    pids = set()
    for gpus, shown in ((1, "0"), (0, inherited), (2, "0,1"), (0, inherited), (0.5, "0")):
        pid, ids, variable = shoal.get(seen.options(num_gpus=gpus).remote())
        assert (len(ids), variable) == (-(-gpus // 1), shown)
        pids.add(pid)
    assert len(pids) < 5, "no worker was used again"


def test_actors_have_devices_of_their_own(cluster):
    holders = [Holder.remote() for _ in range(2)]
    answers = shoal.get([holder.seen.remote() for holder in holders])
    assert sorted(ids for ids, _ in answers) == [[0], [1]]
    assert all(variable == str(ids[0]) for ids, variable in answers)
