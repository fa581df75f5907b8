"""The first of two drivers: leaves a detached actor for the second."""

import ray


@ray.remote(num_cpus=0)
class Store:
    def __init__(self):
        self.values = {}

    def put(self, key, value):
        self.values[key] = value

    def get(self, key):
        return self.values[key]


ray.init(address="auto", namespace="two drivers")
store = Store.options(name="store", lifetime="detached").remote()
ray.get(store.put.remote("from", "the first driver"))
mine = Store.options(name="mine").remote()
ray.get(mine.put.remote("a", 1))
print("done")
