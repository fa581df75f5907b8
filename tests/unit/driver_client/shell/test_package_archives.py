from __future__ import annotations

import os
import zipfile

import pytest

from cluster_common import limits as common_limits
from driver_client.exceptions import RuntimeEnvSetupError
from driver_client.shell import environment_texts, requirement_lists
from driver_client.shell.package_archives import PackageArchives


@pytest.fixture
def archives():
    made = PackageArchives()
    yield made
    made.close()


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "project"
    for path, text in {
        "a.py": "A = 1",
        "deep/b.txt": "b",
        "deep/keep.log": "kept",
        "deep/.gitignore": "!keep.log\n",
        "other.log": "gone",
        ".gitignore": "*.log\n",
        ".rayignore": "private/\n",
        "private/key": "secret",
        ".git/config": "x",
        "venv/bin/python": "x",
        "deep/__pycache__/b.pyc": "x",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def names(package):
    with zipfile.ZipFile(package.path) as archive:
        return set(archive.namelist())


def test_ignored_files_stay_at_home(archives, folder):
    made = archives.pack_folder(folder, ["deep/*.txt"], "")
    assert names(made) == {"a.py", "deep/keep.log", "deep/.gitignore", ".gitignore", ".rayignore"}


def test_what_gitignore_names_may_be_wanted(archives, folder, monkeypatch):
    monkeypatch.setenv("SHOAL_RUNTIME_ENV_IGNORE_GITIGNORE", "1")
    assert "other.log" in names(archives.pack_folder(folder, [], ""))


def test_equal_content_is_one_name_and_a_change_another(archives, folder, tmp_path):
    first = archives.pack_folder(folder, [], "inside")
    assert "inside/a.py" in names(first)
    assert archives.pack_folder(folder, [], "inside") is first
    os.utime(folder / "a.py", ns=(1, 1))
    again = archives.pack_folder(folder, [], "inside")
    assert again is not first
    assert again.package == first.package
    (folder / "a.py").write_text("A = 2")
    assert archives.pack_folder(folder, [], "inside").package != first.package


def test_links_are_followed_but_not_in_circles(archives, folder):
    (folder / "round").symlink_to(folder)
    (folder / "linked.py").symlink_to(folder / "a.py")
    found = names(archives.pack_folder(folder, [], ""))
    assert "linked.py" in found
    assert not any(name.startswith("round") for name in found)


def test_a_package_that_is_too_large_names_its_largest_files(archives, folder, monkeypatch):
    monkeypatch.setattr(common_limits, "PACKAGE_BYTES_MAX", 2_000)
    (folder / "data.bin").write_bytes(os.urandom(5_000))
    with pytest.raises(RuntimeEnvSetupError, match=r"data\.bin") as caught:
        archives.pack_folder(folder, [], "")
    assert "excludes" in str(caught.value)


def test_the_text_names_packages_by_content(archives, folder):
    packed = environment_texts.pack({"working_dir": str(folder), "excludes": ["x"]}, archives)
    assert packed.fields == {"working_dir": packed.packages[0].package.uri}
    again = environment_texts.pack(packed.fields, archives)
    assert (again.fields, again.packages) == (packed.fields, ())


def test_what_does_not_exist_is_an_error_at_once(archives, tmp_path):
    for environment in (
        {"working_dir": str(tmp_path / "none")},
        {"py_modules": [str(tmp_path / "none")]},
        {"pip": str(tmp_path / "none.txt")},
    ):
        with pytest.raises(ValueError, match="none"):
            environment_texts.pack(environment, archives)


def test_a_text_that_is_too_long_says_what_to_do(archives):
    packed = environment_texts.pack({"env_vars": {"A": "x" * 70_000}}, archives)
    with pytest.raises(ValueError, match="working_dir"):
        packed.text()


def test_requirements_files_are_read_here_with_those_they_include(tmp_path):
    (tmp_path / "wheels").mkdir()
    (tmp_path / "sub").mkdir()
    (tmp_path / "base.txt").write_text("goods==1.0  # why\n\n-r sub/more.txt\n-f wheels\n")
    (tmp_path / "sub" / "more.txt").write_text("more>=2\n./local\n")
    (tmp_path / "sub" / "local").mkdir()
    lines = requirement_lists.requirements("pip", str(tmp_path / "base.txt"))
    assert lines == [
        "goods==1.0",
        "more>=2",
        str(tmp_path / "sub" / "local"),
        f"-f {tmp_path / 'wheels'}",
    ]


def test_files_that_include_each_other_are_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("-r a.txt\n")
    with pytest.raises(ValueError, match="files deep"):
        requirement_lists.requirements("pip", str(tmp_path / "a.txt"))


def test_changed_local_sources_are_another_environment(tmp_path):
    (tmp_path / "setup.py").write_text("one")
    before = requirement_lists.local_print([str(tmp_path)])
    assert before == requirement_lists.local_print([str(tmp_path)])
    (tmp_path / "setup.py").write_text("three")
    assert before != requirement_lists.local_print([str(tmp_path)])
    assert requirement_lists.local_print(["goods==1.0"]) == ""
