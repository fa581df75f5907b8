"""One suite for every storage back end."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest
import redis

from gcs_service.core import tables
from gcs_service.core.tables import Write
from gcs_service.shell.storage.memory_storage import MemoryStorage
from gcs_service.shell.storage.protocol import StorageError, StoreTakenError
from gcs_service.shell.storage.redis_storage import RedisStorage
from gcs_service.shell.storage.sqlite_storage import SqliteStorage
from tests.redis_server import RedisServer


class MemoryFactory:
    """A second `open` is a restart."""

    def __init__(self, folder, request):
        self._rows = {}

    def open(self):
        return MemoryStorage(self._rows)


class SqliteFactory:
    def __init__(self, folder, request):
        self._folder = folder

    def open(self):
        return SqliteStorage(str(self._folder))


class RedisFactory:
    """Every test begins with an empty database of the module's one server."""

    def __init__(self, folder, request):
        self._server = request.getfixturevalue("redis_server")
        redis.Redis.from_url(self._server.url).flushall()

    def open(self):
        return RedisStorage(self._server.url)


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory):
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    yield server
    server.kill()


FACTORIES = {"memory": MemoryFactory, "sqlite": SqliteFactory, "redis": RedisFactory}


@pytest.fixture(params=FACTORIES)
def factory(request, tmp_path):
    return FACTORIES[request.param](tmp_path, request)


@pytest.fixture
def storage(factory):
    store = factory.open()
    yield store
    store.close()


def test_a_new_store_has_all_tables_and_no_rows(storage):
    assert all(storage.load(table) == [] for table in tables.ALL_TABLES)


def test_rows_come_back_in_key_order(storage):
    storage.commit([Write(tables.NODE, key, key * 2) for key in (b"c", b"a", b"b")])
    assert storage.load(tables.NODE) == [(b"a", b"aa"), (b"b", b"bb"), (b"c", b"cc")]


def test_tables_do_not_share_keys(storage):
    storage.commit([Write(tables.NODE, b"k", b"node"), Write(tables.KV, b"k", b"kv")])
    assert storage.load(tables.NODE) == [(b"k", b"node")]
    assert storage.load(tables.KV) == [(b"k", b"kv")]


def test_the_last_write_of_a_key_in_a_batch_wins(storage):
    storage.commit([Write(tables.KV, b"k", b"1"), Write(tables.KV, b"k", b"2")])
    assert storage.load(tables.KV) == [(b"k", b"2")]


def test_a_removal_and_a_write_of_the_same_key_keep_their_order(storage):
    storage.commit([Write(tables.KV, b"k", b"1")])
    storage.commit([Write(tables.KV, b"k", None), Write(tables.KV, b"k", b"2")])
    assert storage.load(tables.KV) == [(b"k", b"2")]
    storage.commit([Write(tables.KV, b"k", b"3"), Write(tables.KV, b"k", None)])
    assert storage.load(tables.KV) == []


def test_removing_what_is_not_there_is_no_error(storage):
    storage.commit([Write(tables.JOB, b"k", None)])


def test_empty_values_and_any_bytes_are_kept(storage):
    key, value = bytes(range(256)), b""
    storage.commit([Write(tables.KV, key, value)])
    assert storage.load(tables.KV) == [(key, value)]


def test_an_empty_batch_changes_nothing(storage):
    storage.commit([])
    assert storage.load(tables.KV) == []


def test_rows_outlive_the_instance(factory):
    first = factory.open()
    first.commit([Write(tables.PLACEMENT_GROUP, b"g", b"row")])
    first.close()
    second = factory.open()
    assert second.load(tables.PLACEMENT_GROUP) == [(b"g", b"row")]
    second.close()


def test_wipe_forgets_everything(storage):
    storage.commit([Write(table, b"k", b"v") for table in tables.ALL_TABLES])
    storage.wipe()
    assert all(storage.load(table) == [] for table in tables.ALL_TABLES)


def test_size_grows_with_rows(storage):
    before = storage.size_bytes()
    storage.commit([Write(tables.KV, b"k%d" % i, b"v" * 1000) for i in range(100)])
    assert storage.size_bytes() > before


def test_an_unknown_table_is_a_mistake_of_ours(storage):
    with pytest.raises((AssertionError, KeyError)):
        storage.load("nonsense")


def test_sqlite_refuses_a_second_service_on_the_same_file(tmp_path):
    first = SqliteStorage(str(tmp_path))
    with pytest.raises(StorageError, match="locked"):
        SqliteStorage(str(tmp_path))
    first.close()


def test_sqlite_names_the_path_it_cannot_open(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="file/gcs"):
        SqliteStorage(str(tmp_path / "file" / "gcs"))


def test_what_sqlite_committed_survives_sigkill_of_its_process(tmp_path):
    program = textwrap.dedent(
        f"""
        import os, signal
        from gcs_service.core.tables import Write
        from gcs_service.shell.storage.sqlite_storage import SqliteStorage
        store = SqliteStorage({str(tmp_path)!r})
        store.commit([Write("kv", b"%d" % i, b"v") for i in range(50)])
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], timeout=30, check=False)
    assert ended.returncode == -signal.SIGKILL
    store = SqliteStorage(str(tmp_path))
    assert len(store.load(tables.KV)) == 50
    store.close()


def test_redis_fences_off_the_service_that_was_replaced(redis_server):
    first = RedisStorage(redis_server.url)
    second = RedisStorage(redis_server.url)
    with pytest.raises(StoreTakenError, match="another control service"):
        first.commit([Write(tables.KV, b"k", b"old")])
    second.commit([Write(tables.KV, b"k", b"new")])
    assert second.load(tables.KV) == [(b"k", b"new")]
    first.close()
    second.close()


def test_redis_rows_outlive_sigkill_of_the_server_and_the_connection_is_dialled_again(redis_server):
    store = RedisStorage(redis_server.url)
    store.commit([Write(tables.KV, b"%d" % i, b"v") for i in range(50)])
    before = store.load(tables.KV)
    redis_server.kill()
    with pytest.raises(StorageError, match="cannot write redis://127"):
        store.commit([Write(tables.KV, b"late", b"v")])
    redis_server.start()
    assert store.load(tables.KV) == before
    store.commit([Write(tables.KV, b"late", b"v")])
    assert len(store.load(tables.KV)) == len(before) + 1
    store.close()


def test_redis_that_lost_its_rows_is_not_written_to(redis_server):
    store = RedisStorage(redis_server.url)
    redis.Redis.from_url(redis_server.url).flushall()
    with pytest.raises(StorageError, match="lost its rows"):
        store.commit([Write(tables.KV, b"k", b"v")])
    store.close()


def test_redis_names_the_server_it_cannot_reach_without_the_password():
    with pytest.raises(StorageError, match=r"redis://127\.0\.0\.1:1/0") as caught:
        RedisStorage("redis://user:secret@127.0.0.1:1/0")
    assert "secret" not in str(caught.value)
