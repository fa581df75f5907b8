"""What makes the parts of environments: archives, folders, packages on their way."""

from __future__ import annotations

import hashlib
import zipfile

import pytest

from cluster_api.v1 import agent_pb2 as a
from cluster_common import limits as common_limits
from raylet_agent.core.runtime_env import canonical
from raylet_agent.shell import builder, environment_folder
from raylet_agent.shell.build_orders import UnpackArchive, read_result
from raylet_agent.shell.environment_store import PreparedEnvironment
from raylet_agent.shell.package_store import PackageError, PackageStore
from raylet_agent.shell.worker_birth import expanded
from raylet_agent.shell.worker_environment import worker_environment


def archive(path, files):
    with zipfile.ZipFile(path, "w") as made:
        for name, text in files.items():
            made.writestr(name, text)
    return path


def unpack(tmp_path, files, name="project.zip"):
    source = archive(tmp_path / "source", files)
    recipe = UnpackArchive(str(source), str(tmp_path / "trees" / "x"), name)
    return builder.build(recipe), tmp_path / "trees" / "x"


@pytest.fixture(autouse=True)
def polite(monkeypatch):
    """Builders lower their priority; the tests' process keeps its own."""
    monkeypatch.setattr("os.nice", lambda _by: None)


def test_an_unpacked_archive_says_what_it_offers(tmp_path):
    files = {"a.py": "", "pack/__init__.py": "", "space/one/x.py": "", "data.txt": "x" * 10}
    status, target = unpack(tmp_path, files)
    assert status == 0
    result = read_result(str(target))
    assert result is not None
    assert result.modules == ("a", "pack", "space.one")
    assert result.size_bytes == 10


@pytest.mark.parametrize("name", ["../out.txt", "/out.txt", "a/../../out.txt"])
def test_nothing_leaves_the_folder(tmp_path, name, capsys):
    status, target = unpack(tmp_path, {name: "x"})
    assert (status, target.exists(), read_result(str(target))) == (1, False, None)
    assert "outside" in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


def test_what_is_too_large_unpacked_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(common_limits, "PACKAGE_UNPACKED_BYTES_MAX", 5)
    status, _ = unpack(tmp_path, {"a": "123456"})
    assert status == 1
    assert "at most 5" in capsys.readouterr().err


def test_what_is_no_archive_says_so(tmp_path, capsys):
    (tmp_path / "source").write_text("no")
    recipe = UnpackArchive(str(tmp_path / "source"), str(tmp_path / "t"), "project.zip")
    assert builder.build(recipe) == 1
    assert "project.zip is not a zip archive" in capsys.readouterr().err


async def chunks(*parts, size=0):
    for part in parts:
        yield a.PackageChunk(data=part, size_bytes=size)


async def test_a_package_is_here_when_it_came_whole(tmp_path):
    store = PackageStore(lambda: tmp_path)
    digest = hashlib.sha256(b"abcd").digest()
    with pytest.raises(PackageError, match="they are not package"):
        await store.take(digest, chunks(b"ab"))
    assert not store.has(digest)
    await store.take(digest, chunks(b"ab", b"cd"))
    assert store.path(digest).read_bytes() == b"abcd"
    assert [path.name for path in tmp_path.iterdir()] == [digest.hex()]


async def test_a_package_above_the_limit_is_refused_at_its_first_piece(tmp_path):
    store = PackageStore(lambda: tmp_path)
    too_large = common_limits.PACKAGE_BYTES_MAX + 1
    with pytest.raises(PackageError, match="at most"):
        await store.take(b"d" * 32, chunks(b"x", size=too_large))


def told(text, modules=(), preloaded=("click", "google", "google.protobuf")):
    prepared = PreparedEnvironment("/w", ("/w",), "", frozenset(modules))
    return worker_environment(canonical(text), prepared, frozenset(preloaded))


def test_workers_start_afresh_where_a_copy_would_be_wrong():
    plain = '{"env_vars": {"A": "1"}}'
    assert told(plain)["executable"] == ""
    assert told(plain, ["own", "google.cloud"])["executable"] == ""
    assert told(plain, ["click"])["executable"]
    assert told(plain, ["google.protobuf"])["executable"]
    assert told('{"env_vars": {"LD_PRELOAD": "x"}}')["executable"]
    assert told('{"env_vars": {"PYTHONPATH": "x"}}')["executable"] == ""


def test_shoal_itself_is_always_the_nodes():
    assert told("", ["shoal"], preloaded=("shoal",))["executable"] == ""


def test_variables_may_name_others(monkeypatch):
    monkeypatch.setenv("KNOWN", "k")
    assert expanded({"A": "${KNOWN}:${UNKNOWN_ONE}:$KNOWN"}) == {"A": "k::$KNOWN"}


def test_the_folders_of_agents_that_were_killed_go_too(tmp_path):
    own = environment_folder.folder_of(tmp_path, b"n" * 16)
    left = own.with_name("999999999-abc")
    other = own.with_name("1-abc")
    for folder in (own, left, other):
        folder.mkdir(parents=True)
    environment_folder.remove(own)
    assert [path.name for path in own.parent.iterdir()] == ["1-abc"]
