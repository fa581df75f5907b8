"""A gang of actors in a placement group; children of a task follow it in."""

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1)
class Member:
    def group(self):
        return ray.get_runtime_context().get_placement_group_id()


@ray.remote(num_cpus=1)
def child():
    return ray.util.get_current_placement_group().id.hex()


@ray.remote(num_cpus=0)
def parent():
    return ray.get(child.remote())


ray.init()
pg = placement_group([{"CPU": 1}] * 3, strategy="PACK", name="gang")
assert ray.get(pg.ready(), timeout=30) == pg
assert placement_group_table(pg)["state"] == "CREATED"
members = [
    Member.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(
            placement_group=pg, placement_group_bundle_index=index
        )
    ).remote()
    for index in range(2)
]
assert set(ray.get([member.group.remote() for member in members])) == {pg.id.hex()}
inside = PlacementGroupSchedulingStrategy(pg, placement_group_capture_child_tasks=True)
assert ray.get(parent.options(scheduling_strategy=inside).remote(), timeout=30) == pg.id.hex()
remove_placement_group(pg)
try:
    ray.get(members[0].group.remote(), timeout=30)
except ray.exceptions.RayActorError:
    print("done")
