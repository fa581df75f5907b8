"""Full collections wait while many actors start, and are as before afterwards."""

from __future__ import annotations

import asyncio
import gc

import pytest

from driver_client import limits
from driver_client.shell.full_collections import FullCollections

BEFORE = (701, 11, 12)


@pytest.fixture(autouse=True)
def thresholds():
    kept = gc.get_threshold()
    gc.set_threshold(*BEFORE)
    yield
    gc.set_threshold(*kept)


def start(collections, count):
    for number in range(count):
        collections.note(b"%d" % number, starting=True)


def end(collections, count, left=0):
    for number in range(left, count):
        collections.note(b"%d" % number, starting=False)


def in_a_loop(work):
    async def run():
        work(FullCollections())

    asyncio.run(run())


def test_a_few_actors_change_nothing():
    def work(collections):
        start(collections, limits.ACTORS_STARTING_MANY - 1)
        assert gc.get_threshold() == BEFORE

    in_a_loop(work)


def test_many_actors_postpone_full_collections_only_until_few_are_left():
    def work(collections):
        many = limits.ACTORS_STARTING_MANY
        start(collections, many)
        assert gc.get_threshold()[:2] == BEFORE[:2]
        assert gc.get_threshold()[2] > 1_000_000
        end(collections, many, left=limits.ACTORS_STARTING_FEW)
        assert gc.get_threshold()[2] > 1_000_000
        collections.note(b"0", starting=False)
        assert gc.get_threshold() == BEFORE

    in_a_loop(work)


def test_what_the_user_set_meanwhile_stays():
    def work(collections):
        start(collections, limits.ACTORS_STARTING_MANY)
        gc.set_threshold(5_000, 50, 50)
        collections.resume()
        assert gc.get_threshold() == (5_000, 50, 50)

    in_a_loop(work)
