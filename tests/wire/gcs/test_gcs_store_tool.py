"""`shoal store`: looking at, copying out and filling a store while no service runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cluster_api.v1 import autoscaler_pb2 as auto
from gcs_service.core import tables
from gcs_service.core.kv_table import KvTable
from gcs_service.core.moment import Moment
from gcs_service.core.tables import Write
from gcs_service.shell.storage.protocol import StoreTakenError
from gcs_service.shell.storage.redis_storage import RedisStorage
from gcs_service.shell.storage.sqlite_storage import SqliteStorage
from tests.redis_server import RedisServer

ROWS = 2_500


def tool(*words, fed=None):
    shoal = Path(sys.executable).with_name("shoal")
    done = subprocess.run(
        [shoal, "store", *map(str, words)],
        input=fed,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path):
    store = SqliteStorage(str(tmp_path / "one"))
    store.commit([Write(tables.KV, b"k%d" % i, bytes(range(256))) for i in range(ROWS)])
    store.commit([Write(tables.CLUSTER, tables.SESSION_NAME, b"session-x")])
    store.close()
    return tmp_path / "one"


def test_what_was_exported_and_imported_is_the_same_on_both_back_ends(folder, tmp_path):
    server = RedisServer(tmp_path / "redis")
    try:
        lines = tmp_path / "rows.jsonl"
        assert tool("export", folder, "--output", lines)[0] == 0
        assert tool("import", server.url, "--input", lines)[0] == 0
        code, out, _ = tool("export", server.url)
        assert code == 0
        second = tmp_path / "two"
        assert tool("import", second, fed=out)[0] == 0
        on_redis, on_disk = RedisStorage(server.url), SqliteStorage(str(second))
        original = SqliteStorage(str(folder))
        for table in tables.ALL_TABLES:
            assert on_redis.load(table) == original.load(table) == on_disk.load(table)
        for store in (on_redis, on_disk, original):
            store.close()
    finally:
        server.kill()


def test_inspect_shows_whose_store_it_is_and_the_rows(folder):
    code, out, err = tool("inspect", folder, "--table", "kv", "--limit", 2)
    assert code == 0, err
    about, *rows = map(json.loads, out.splitlines())
    assert about["session_name"] == "session-x"
    assert about["tables"]["kv"]["rows"] == ROWS
    assert len(rows) == 2


def test_inspect_shows_rows_by_what_they_mean(tmp_path):
    store = SqliteStorage(str(tmp_path))
    table = KvTable()
    now = Moment(mono_ms=0, wall_ms=0)
    table.put("space", b"key", b"\xffvalue", if_absent=False, if_revision=None, ttl_ms=0, at=now)
    store.commit(table.writes)
    store.commit([Write(tables.CLUSTER, tables.EPOCH, (3).to_bytes(8, "big"))])
    store.commit([Write(tables.CLUSTER, tables.SESSION_NAME, b"session-x")])
    constraint = auto.ClusterResourceConstraint(
        resource_requests=[auto.ResourceRequestByCount(count=7)]
    )
    store.commit([Write(tables.AUTOSCALER, tables.CONSTRAINT, constraint.SerializeToString())])
    store.commit([Write(tables.JOB, b"1234", b"\xff\xff no message")])
    store.close()
    values = {
        name: [json.loads(line)["value"] for line in shown.splitlines()[1:]]
        for name in ("kv", "cluster", "autoscaler", "job")
        for shown in [tool("inspect", tmp_path, "--table", name)[1]]
    }
    assert values["kv"] == [
        {
            "namespace": "space",
            "key": "'key'",
            "value": r"'\xffvalue'",
            "revision": 1,
            "expires_wall_ms": 0,
        }
    ]
    assert values["cluster"] == [3, "session-x"]
    assert values["autoscaler"] == [{"resource_requests": [{"count": "7"}]}]
    assert values["job"] == [b"\xff\xff no message".hex()]


def test_who_looks_into_redis_does_not_disturb_the_service_that_writes(tmp_path):
    server = RedisServer(tmp_path / "redis")
    try:
        service = RedisStorage(server.url)
        service.commit([Write(tables.KV, b"k", b"v")])
        assert tool("inspect", server.url, "--table", "kv")[0] == 0
        code, rows, _ = tool("export", server.url)
        assert code == 0
        assert tool("import", server.url, fed=rows)[0] == 1
        service.commit([Write(tables.KV, b"k", b"w")])
        assert tool("import", server.url, "--replace", fed=rows)[0] == 0
        with pytest.raises(StoreTakenError):
            service.commit([Write(tables.KV, b"k", b"x")])
        assert service.load(tables.KV) == [(b"k", b"v")]
        service.close()
    finally:
        server.kill()


def test_an_import_never_mixes_two_clusters(folder, tmp_path):
    _, rows, _ = tool("export", folder)
    code, _, err = tool("import", folder, fed=rows)
    assert code == 1
    assert "--replace" in err
    assert tool("import", folder, "--replace", fed=rows)[0] == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [("", "line 1"), ("{}", "no header"), ("nonsense", "line 1"), ("[1]", "line 1")],
)
def test_what_is_no_export_is_named(tmp_path, text, problem):
    code, _, err = tool("import", tmp_path / "new", fed=text)
    assert code == 1
    assert problem in err


def test_a_store_in_use_and_one_that_does_not_exist_are_errors(folder, tmp_path):
    store = SqliteStorage(str(folder))
    code, _, err = tool("inspect", folder)
    store.close()
    assert (code, "locked" in err) == (1, True)
    code, _, err = tool("inspect", tmp_path / "none")
    assert (code, "there is no store" in err) == (1, True)
