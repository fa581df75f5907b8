"""Map-reduce: several returns a mapper, one reducer a part."""

import collections
import zlib

import ray

TEXT = ["the cat and the dog", "a dog and a bird", "the bird sees the cat", "and the rest"]
PARTS = 3


@ray.remote(num_returns=PARTS)
def map_words(text):
    parts = [collections.Counter() for _ in range(PARTS)]
    for word in text.split():
        parts[zlib.crc32(word.encode()) % PARTS][word] += 1
    return parts


@ray.remote
def reduce_words(*counters):
    return sum(counters, collections.Counter())


ray.init()
mapped = [map_words.remote(text) for text in TEXT]
reduced = [reduce_words.remote(*[parts[i] for parts in mapped]) for i in range(PARTS)]
unfinished, counted = reduced, collections.Counter()
while unfinished:
    ready, unfinished = ray.wait(unfinished, num_returns=1)
    counted += ray.get(ready[0])
assert counted == collections.Counter(" ".join(TEXT).split()), counted
print("done")
