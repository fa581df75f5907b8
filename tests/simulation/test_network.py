"""The model of the network: ordered while a stream lives, a prefix when it breaks."""

from random import Random

import pytest

from cluster_simulator.event_heap import EventHeap
from cluster_simulator.network import Network


class Peer:
    def __init__(self, name):
        self.name = name
        self.alive = True
        self.heard = []
        self.links = []

    def link_accepted(self, link):
        self.links.append(link)

    def link_frame(self, link, items):
        self.heard += items

    def link_closed(self, link, *, refused):
        self.heard.append("refused" if refused else "closed")


@pytest.fixture
def heap():
    return EventHeap()


@pytest.fixture
def network(heap):
    return Network(heap, Random(1))


def run(heap, us=30_000_000):
    heap.run_until(heap.now_us + us, None, 1)


@pytest.fixture
def pair(network):
    client, server = Peer("client"), Peer("server")
    network.listeners["server:1"] = server
    return client, server, network.connect("test", client, "server:1")


def test_items_arrive_in_order_and_both_ways(heap, pair):
    client, server, link = pair
    for number in range(50):
        heap.after(number * 37, link.send, 0, number)
    run(heap)
    server.links[0].send(1, "answer")
    run(heap)
    assert server.heard == list(range(50))
    assert client.heard == ["answer"]


def test_an_unsent_item_is_replaced_by_its_key(heap, pair):
    _, server, link = pair
    link.send(0, "first")
    for number in range(5):
        link.send(0, number, "snapshot")
    run(heap)
    assert server.heard == ["first", 4]


@pytest.mark.parametrize("seed", range(20))
def test_a_break_keeps_a_prefix_and_then_tells_both_ends(heap, network, pair, seed):
    client, server, link = pair
    network.dice.seed(seed)
    link.send(0, -1)
    run(heap, 1_000)
    for number in range(40):
        heap.after(number * 50, link.send, 0, number)
    run(heap, 1_200)
    network.break_link(link, slow_to_see_us=1_000_000)
    run(heap)
    assert server.heard[:-1] == list(range(-1, len(server.heard) - 2))
    assert server.heard[-1] == "closed"
    assert client.heard == ["closed"]


def test_nobody_listens(heap, network):
    client = Peer("client")
    network.connect("test", client, "nowhere:1").send(0, "hello")
    run(heap)
    assert client.heard == ["refused"]


def test_a_short_partition_delays_and_a_long_one_breaks(heap, network, pair):
    client, server, link = pair
    link.send(0, 1)
    run(heap, 10_000)
    network.cut(server)
    link.send(0, 2)
    run(heap, 500_000)
    assert server.heard == [1]
    network.heal(server)
    run(heap, 10_000)
    assert server.heard == [1, 2]
    network.cut(server)
    link.send(0, 3)
    run(heap)
    assert server.heard == [1, 2, "closed"]
    assert client.heard == ["closed"]


def test_an_orderly_close_comes_behind_what_was_said(heap, pair):
    client, server, link = pair
    link.send(0, "bye")
    link.close(0)
    run(heap)
    assert server.heard == ["bye", "closed"]
    assert client.heard == []
