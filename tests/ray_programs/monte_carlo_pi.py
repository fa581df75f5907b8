"""Sampling tasks report to a progress actor that the driver reads meanwhile."""

import random

import ray


@ray.remote(num_cpus=0)
class ProgressActor:
    def __init__(self, total):
        self.total = total
        self.completed = {}

    def report_progress(self, task_id, completed):
        self.completed[task_id] = completed

    def get_progress(self):
        return sum(self.completed.values()) / self.total


@ray.remote
def sampling_task(samples, task_id, progress):
    rng = random.Random(task_id)
    inside = 0
    for number in range(samples):
        inside += rng.random() ** 2 + rng.random() ** 2 <= 1
        if (number + 1) % 5_000 == 0:
            progress.report_progress.remote(task_id, number + 1)
    return inside


ray.init()
TASKS, SAMPLES = 8, 10_000
progress = ProgressActor.remote(TASKS * SAMPLES)
results = [sampling_task.remote(SAMPLES, number, progress) for number in range(TASKS)]
seen = [0.0]
while seen[-1] < 1:
    seen.append(ray.get(progress.get_progress.remote()))
assert seen == sorted(seen)
pi = 4 * sum(ray.get(results)) / (TASKS * SAMPLES)
assert abs(pi - 3.14159) < 0.05, pi
print("done")
