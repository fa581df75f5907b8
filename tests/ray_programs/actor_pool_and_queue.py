"""`ray.util.ActorPool`, `ray.util.queue.Queue`, `ray.util.multiprocessing.Pool`."""

import ray
from ray.util import ActorPool
from ray.util.multiprocessing import Pool
from ray.util.queue import Empty, Queue


@ray.remote(num_cpus=0)
class Doubler:
    def double(self, value):
        return 2 * value


@ray.remote(num_cpus=0)
def consume(queue):
    taken = []
    while True:
        try:
            taken.append(queue.get(block=True, timeout=0.5))
        except Empty:
            return taken


ray.init()
pool = ActorPool([Doubler.remote() for _ in range(3)])
assert list(pool.map(lambda a, v: a.double.remote(v), range(10))) == list(range(0, 20, 2))
queue = Queue(maxsize=10)
consumers = [consume.remote(queue) for _ in range(2)]
for number in range(50):
    queue.put(number)
assert sorted(sum(ray.get(consumers), [])) == list(range(50))
with Pool(processes=2) as processes:
    assert processes.map(lambda x: x + 1, range(20)) == list(range(1, 21))
print("done")
