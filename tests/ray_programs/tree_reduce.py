"""Adds numbers in a tree of tasks whose arguments are references."""

import ray


@ray.remote
def create(value):
    return value


@ray.remote
def add(one, other):
    return one + other


ray.init()
values = [create.remote(number) for number in range(33)]
while len(values) > 1:
    values = [*values[2:], add.remote(values[0], values[1])]
assert ray.get(values[0]) == sum(range(33))


@ray.remote
def total(parts):
    return sum(ray.get(parts))


assert ray.get(total.remote([create.remote(1), create.remote(2)])) == 3
print("done")
