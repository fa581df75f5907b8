"""The second driver: finds what was detached and nothing else of the first."""

import ray

ray.init(address="auto", namespace="two drivers")
store = ray.get_actor("store")
assert ray.get(store.get.remote("from")) == "the first driver"
try:
    ray.get_actor("mine")
except ValueError:
    pass
else:
    raise AssertionError("an actor outlived its driver")
assert ray.util.list_named_actors() == ["store"]
ray.kill(store)
try:
    ray.get_actor("store")
except ValueError:
    print("done")
