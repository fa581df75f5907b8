"""The key-value store's contract, seen from processes (FIELD_REPORTS O-16)."""

from __future__ import annotations

import pytest

import shoal
from shoal.cluster_utils import Cluster
from shoal.exceptions import KvQuotaError, KvTooLargeError, RpcError
from shoal.experimental import internal_kv
from shoal.util import kv
from tests.cluster.conftest import NAMESPACE, close_checked
from tests.cluster.waiting import until
from tests.redis_server import RedisServer

QUOTA_BYTES = 200_000
CLIENTS = 20
ACKNOWLEDGED = 1_000


@pytest.fixture(scope="module")
def cluster():
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": CLIENTS}, kv_quota_bytes=QUOTA_BYTES
    )
    try:
        cluster.connect(namespace=NAMESPACE)
        yield cluster
    finally:
        close_checked(cluster)


@shoal.remote
def race(name, overwrite):
    return name, kv.put("race", name, if_absent=not overwrite)


def test_of_racing_clients_one_wins_and_each_answer_says_who(cluster):
    names = [f"client-{number}" for number in range(CLIENTS)]
    answers = shoal.get([race.remote(name, False) for name in names])
    winners = [name for name, result in answers if result.written]
    assert len(winners) == 1
    value, revision = kv.get_with_revision("race")
    assert value == winners[0].encode()
    assert {result.revision for _, result in answers} == {revision}


def test_every_acknowledged_key_survives_sigkill_of_the_service(cluster):
    for number in range(ACKNOWLEDGED):
        assert kv.put(f"kept-{number}", str(number), namespace="durable").written
    cluster.kill_gcs()
    cluster.start_gcs()
    names = [f"kept-{number}" for number in range(ACKNOWLEDGED)]
    stored = kv.multi_get(names, namespace="durable")
    assert stored == {name.encode(): name.split("-")[1].encode() for name in names}
    assert kv.delete("kept-", prefix=True, namespace="durable") == ACKNOWLEDGED


def test_a_full_namespace_is_an_error_for_that_namespace_only(cluster):
    with pytest.raises(KvQuotaError, match="'full'"):
        for number in range(1_000):
            kv.put(f"{number}", b"x" * 10_000, namespace="full")
    assert kv.put("k", b"x" * 10_000, namespace="other").written
    kv.delete("0", namespace="full")
    assert kv.put("0", b"small again", namespace="full").written


def test_sizes_are_limited_and_the_errors_have_names(cluster):
    with pytest.raises(KvTooLargeError, match="key of 4097 bytes"):
        kv.put("k" * 4_097, b"")
    with pytest.raises(KvTooLargeError, match="is above"):
        kv.put("big", b"x" * ((64 << 20) + 1))
    with pytest.raises(ValueError, match="key of 0 bytes"):
        kv.put("", b"")
    with pytest.raises(ValueError, match="ttl_s"):
        kv.put("k", b"", ttl_s=-1)


def test_revisions_conditions_prefixes_and_expiry(cluster):
    first = kv.put("a/1", b"1", namespace="all")
    assert not kv.put("a/1", b"2", if_revision=first.revision + 1, namespace="all").written
    second = kv.put("a/1", b"2", if_revision=first.revision, namespace="all")
    assert (second.written, second.revision > first.revision) == (True, True)
    kv.put("a/2", b"3", namespace="all")
    kv.put("b", b"4", namespace="all")
    assert kv.keys("a/", namespace="all") == [b"a/1", b"a/2"]
    assert kv.multi_get(["a/1", "none", "b"], namespace="all") == {b"a/1": b"2", b"b": b"4"}
    assert kv.delete("a/", prefix=True, namespace="all") == 2
    assert not kv.exists("a/1", namespace="all")
    kv.put("short", b"", ttl_s=0.05, namespace="all")
    until(lambda: not kv.exists("short", namespace="all"), "the value expired")


def test_the_names_of_ray_have_the_return_values_of_ray(cluster):
    assert internal_kv._internal_kv_initialized()
    assert internal_kv._internal_kv_put("k", b"1", namespace=b"old") is False
    assert internal_kv._internal_kv_put("k", b"2", namespace=b"old") is True
    assert internal_kv._internal_kv_put("k", b"3", overwrite=False, namespace=b"old") is True
    assert internal_kv._internal_kv_get("k", namespace=b"old") == b"2"
    assert internal_kv._internal_kv_exists("k", namespace=b"old")
    assert internal_kv._internal_kv_list("", namespace=b"old") == [b"k"]
    assert internal_kv._internal_kv_del("k", namespace=b"old") == 1
    assert internal_kv._internal_kv_get("k", namespace=b"old") is None


def test_a_cluster_on_redis_reads_while_the_store_is_away_and_writes_when_it_is_back(
    cluster, tmp_path
):
    shoal.shutdown()
    server = RedisServer(tmp_path / "redis")
    on_redis = Cluster(initialize_head=True, storage=server.url)
    try:
        on_redis.connect(namespace=NAMESPACE)
        assert kv.put("k", b"v").written
        server.kill()
        with pytest.raises(RpcError, match="read-only"):
            kv.put("k", b"refused")
        with pytest.raises(RpcError, match="read-only until the store is back"):
            kv.put("other", b"refused")
        assert kv.exists("k")
        assert [node["Alive"] for node in shoal.nodes()] == [True]
        server.start()
        until(_writes_again, "writes are taken again")
        on_redis.kill_gcs()
        on_redis.start_gcs()
        assert kv.get("again") == b"v"
    finally:
        on_redis.shutdown()
        server.kill()
        cluster.connect(namespace=NAMESPACE)


def _writes_again():
    try:
        return kv.put("again", b"v").written
    except RpcError:
        return False
