"""Runtime environments on real nodes: files, modules, packages, and who shares what is made."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.gcs_calls import agent_state
from shoal.runtime_env import RuntimeEnv
from shoal.util.placement_group import placement_group, remove_placement_group
from tests.cluster.drivers import run_driver
from tests.cluster.local_packages import from_folder, make_wheel

pytestmark = pytest.mark.usefixtures("settled")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for version in ("1.0", "2.0"):
        make_wheel(folder, "demo_goods", version, f"VERSION = {version!r}\n")
    # A package that every forked worker has imported already.
    make_wheel(folder, "click", "99.0", "VERSION = '99.0'\n")
    make_wheel(folder, "cluster_common", "1.0", "VERSION = '1.0'\n")
    return folder


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "project"
    (folder / "data").mkdir(parents=True)
    (folder / "project_code.py").write_text("ANSWER = 42\n")
    (folder / "data" / "words.txt").write_text("some words")
    (folder / "secret.log").write_text("not for workers")
    (folder / ".gitignore").write_text("*.log\n")
    (folder / "notes.md").write_text("left out by excludes")
    return folder


@shoal.remote(num_cpus=0)
class Importer:
    """Tells what a module of its environment is."""

    def version(self, name: str) -> str:
        return importlib.import_module(name).VERSION

    def value(self, name: str, attribute: str) -> Any:
        return getattr(importlib.import_module(name), attribute)

    def process(self) -> tuple[int, str, str]:
        return os.getpid(), sys.executable, os.environ.get("VIRTUAL_ENV", "")

    def variables(self, *names: str) -> list[str | None]:
        return [os.environ.get(name) for name in names]

    def environment(self) -> dict[str, Any]:
        return dict(shoal.get_runtime_context().runtime_env)


def counters(cluster) -> dict[str, int]:
    """Of the one node's agent."""
    return dict(agent_state(cluster.nodes[0].address).counters)


def pip(folder: Path, *requirements: str) -> dict[str, Any]:
    return {"pip": from_folder(folder, *requirements)}


def test_a_working_dir_is_where_workers_are_and_import_from(project):
    environment = {"working_dir": str(project), "excludes": ["notes.md"]}

    @shoal.remote(runtime_env=environment)
    def look() -> tuple[int, str, list[str]]:
        from project_code import ANSWER  # type: ignore[import-not-found]

        return (
            ANSWER,
            Path("data/words.txt").read_text(),
            sorted(path.name for path in Path().iterdir()),
        )

    answer, words, names = shoal.get(look.remote())
    assert (answer, words) == (42, "some words")
    assert {"project_code.py", "data"} <= set(names)
    assert not {"secret.log", "notes.md"} & set(names)


def test_an_archive_may_be_a_working_dir(project, tmp_path):
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", project)
    actor = Importer.options(runtime_env={"working_dir": archive}).remote()
    assert shoal.get(actor.value.remote("project_code", "ANSWER")) == 42


def test_a_changed_folder_is_another_environment(project):
    first = Importer.options(runtime_env={"working_dir": str(project)}).remote()
    assert shoal.get(first.value.remote("project_code", "ANSWER")) == 42
    (project / "project_code.py").write_text("ANSWER = 43 + 0\n")
    second = Importer.options(runtime_env={"working_dir": str(project)}).remote()
    assert shoal.get(second.value.remote("project_code", "ANSWER")) == 43
    assert shoal.get(first.value.remote("project_code", "ANSWER")) == 42


def test_modules_come_as_folders_files_wheels_and_imported_ones(tmp_path, wheels, monkeypatch):
    (tmp_path / "folder_goods").mkdir()
    (tmp_path / "folder_goods" / "__init__.py").write_text("VERSION = 'folder'\n")
    (tmp_path / "single_goods.py").write_text("VERSION = 'single'\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "imported_goods.py").write_text("VERSION = 'imported'\n")
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    modules = [
        str(tmp_path / "folder_goods"),
        tmp_path / "single_goods.py",
        str(wheels / "demo_goods-1.0-py3-none-any.whl"),
        importlib.import_module("imported_goods"),
    ]
    actor = Importer.options(runtime_env=RuntimeEnv(py_modules=modules)).remote()
    names = ("folder_goods", "single_goods", "demo_goods", "imported_goods")
    found = shoal.get([actor.version.remote(name) for name in names])
    assert found == ["folder", "single", "1.0", "imported"]


def test_two_versions_of_a_package_at_once_and_one_build_for_all_who_wait(one_node, wheels):
    before = counters(one_node)["environment_builds"]
    both = [
        Importer.options(runtime_env=pip(wheels, f"demo_goods=={version}")).remote()
        for version in ("1.0", "2.0", "1.0", "2.0", "1.0")
    ]
    found = shoal.get([actor.version.remote("demo_goods") for actor in both])
    assert found == ["1.0", "2.0", "1.0", "2.0", "1.0"]
    assert counters(one_node)["environment_builds"] == before + 2
    _, executable, venv = shoal.get(both[0].process.remote())
    assert executable.startswith(venv)


def test_a_second_job_finds_what_the_first_one_made(one_node, wheels):
    """Needs the environment of the test before, or makes it."""
    environment = pip(wheels, "demo_goods==1.0")
    actor = Importer.options(runtime_env=environment).remote()
    assert shoal.get(actor.version.remote("demo_goods")) == "1.0"
    before = counters(one_node)["environment_builds"]
    done = run_driver(
        f"""
        import json, shoal
        shoal.init(runtime_env=json.loads({json.dumps(json.dumps(environment))}))

        @shoal.remote
        def version():
            import demo_goods
            return demo_goods.VERSION

        print(shoal.get(version.remote()))
        """,
        one_node.address,
    )
    assert done.stdout.split() == ["1.0"], done.stderr
    assert counters(one_node)["environment_builds"] == before


def test_a_package_that_workers_have_already_is_replaced_all_the_same(wheels):
    """click is imported by the fork server: such workers start as a new interpreter."""
    actor = Importer.options(runtime_env=pip(wheels, "click==99.0")).remote()
    assert shoal.get(actor.version.remote("click")) == "99.0"
    plain = Importer.remote()
    assert shoal.get(plain.value.remote("click", "__name__")) == "click"


def test_a_module_that_workers_have_already_is_replaced_all_the_same(tmp_path):
    (tmp_path / "click").mkdir()
    (tmp_path / "click" / "__init__.py").write_text("VERSION = 'mine'\n")
    environment = {"py_modules": [str(tmp_path / "click")]}

    @shoal.remote(runtime_env=environment)
    def version() -> str:
        import click

        return getattr(click, "VERSION", "another")

    assert shoal.get(version.remote()) == "mine"


def test_what_cannot_be_installed_fails_its_tasks_and_actors_with_the_tools_words(wheels):
    environment = pip(wheels, "no_such_goods==3.0")

    @shoal.remote(runtime_env=environment)
    def never() -> None:
        """Nobody gets here."""

    actor = Importer.options(runtime_env=environment).remote()
    with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match=r"no_such_goods==3\.0") as task:
        shoal.get(never.remote())
    assert "No matching distribution found" in str(task.value)
    with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match=r"no_such_goods==3\.0") as call:
        shoal.get(actor.process.remote())
    assert isinstance(call.value, shoal.exceptions.ActorDiedError)
    assert call.value.cause == shoal.exceptions.ActorDeathCause.CREATION_FAILED


def test_uv_installs_too_or_says_how_to_get_it(wheels):
    actor = Importer.options(runtime_env={"uv": from_folder(wheels, "demo_goods==2.0")}).remote()
    if shutil.which("uv") or importlib.util.find_spec("uv"):
        assert shoal.get(actor.version.remote("demo_goods")) == "2.0"
    else:
        with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match="pip install uv"):
            shoal.get(actor.process.remote())


def test_a_detached_actor_without_its_environment_is_dead_with_that_cause(tmp_path):
    missing = "package://" + "0" * 64 + "/gone.zip"
    actor = Importer.options(
        name="no environment", lifetime="detached", runtime_env={"working_dir": missing}
    ).remote()
    with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match=r"gone\.zip"):
        shoal.get(actor.process.remote())


def test_packages_that_bring_their_own_shoal_are_refused(wheels):
    actor = Importer.options(runtime_env=pip(wheels, "cluster_common==1.0")).remote()
    with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match="their own cluster_common"):
        shoal.get(actor.process.remote())


def test_groups_are_ready_while_an_environment_is_made_and_too_slow_ones_fail(tmp_path, wheels):
    """pip reads its constraints from a pipe into which nobody writes."""
    pipe = tmp_path / "constraints"
    os.mkfifo(pipe)
    environment = RuntimeEnv(
        pip=[*from_folder(wheels, "demo_goods==1.0"), f"-c {pipe}"],
        config={"setup_timeout_seconds": 3},
    )
    actor = Importer.options(runtime_env=environment).remote()
    group = placement_group([{"CPU": 1}])
    shoal.get(group.ready(), timeout=20)
    plain = Importer.remote()
    pid, _, _ = shoal.get(plain.process.remote())
    assert pid
    remove_placement_group(group)
    with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match="setup_timeout_seconds"):
        shoal.get(actor.process.remote())


def test_variables_are_merged_and_other_fields_replaced(project):
    done = Importer.options(
        runtime_env={"env_vars": {"A": "outer", "B": "outer"}, "working_dir": str(project)}
    ).remote()

    @shoal.remote(num_cpus=0)
    class Outer:
        def inner(self) -> Any:
            child = Importer.options(runtime_env={"env_vars": {"B": "inner"}}).remote()
            return shoal.get([child.variables.remote("A", "B"), child.environment.remote()])

    outer = Outer.options(
        runtime_env={"env_vars": {"A": "outer", "B": "outer"}, "working_dir": str(project)}
    ).remote()
    values, environment = shoal.get(outer.inner.remote())
    assert values == ["outer", "inner"]
    assert environment["working_dir"].endswith("/project.zip")
    assert environment["env_vars"] == {"A": "outer", "B": "inner"}
    assert shoal.get(done.variables.remote("A", "B")) == ["outer", "outer"]


def test_variables_may_refer_to_the_nodes_own(monkeypatch):
    actor = Importer.options(
        runtime_env={"env_vars": {"LONGER": "${HOME}/x", "GONE": "a${NO_SUCH_VARIABLE}b"}}
    ).remote()
    home = os.environ["HOME"]
    assert shoal.get(actor.variables.remote("LONGER", "GONE")) == [f"{home}/x", "ab"]


def test_variables_that_count_at_the_start_only_are_there_at_the_start():
    @shoal.remote(
        runtime_env={"env_vars": {"PYTHONHASHSEED": "7", "PYTHONPATH": "/somewhere/else"}}
    )
    def look() -> tuple[int, int]:
        return hash("shoal"), sys.path.count("/somewhere/else")

    command = [sys.executable, "-c", "print(hash('shoal'))"]
    seeded = subprocess.run(
        command, env={**os.environ, "PYTHONHASHSEED": "7"}, capture_output=True, check=True
    )
    assert shoal.get(look.remote()) == (int(seeded.stdout), 1)


def _remember() -> None:
    os.environ["HOOKED"] = "yes"


def _fail() -> None:
    raise RuntimeError("the hook says no")


def test_a_setup_hook_runs_before_anything_else():
    actor = Importer.options(runtime_env={"worker_process_setup_hook": _remember}).remote()
    assert shoal.get(actor.variables.remote("HOOKED")) == ["yes"]
    broken = Importer.options(runtime_env={"worker_process_setup_hook": _fail}).remote()
    with pytest.raises(shoal.exceptions.RuntimeEnvSetupError, match="the hook says no"):
        shoal.get(broken.process.remote())
