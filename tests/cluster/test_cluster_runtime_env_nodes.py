"""Packages of runtime environments on their way between nodes, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import shoal
from cluster_common.runtime_packages import NAMESPACE
from shoal.util import kv
from tests.cluster.drivers import run_driver
from tests.cluster.waiting import until


def test_packages_reach_other_nodes_and_their_rows_go_with_the_job(make_cluster, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "project_code.py").write_text("ANSWER = 42\n")
    cluster = make_cluster(num_cpus=0)
    node = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    program = f"""
        import os, shoal
        shoal.init(runtime_env={{"working_dir": {str(project)!r}}})

        @shoal.remote
        def look():
            import project_code
            return project_code.ANSWER, shoal.get_runtime_context().get_node_id()

        @shoal.remote(lifetime="detached", name="keeper", namespace="tests")
        class Keeper:
            def answer(self):
                import project_code
                return project_code.ANSWER

        shoal.get(Keeper.remote().answer.remote())
        print(*shoal.get(look.remote()))
        """
    done = run_driver(program, cluster.address)
    assert done.stdout.split() == ["42", node.node_id], done.stderr

    def kinds() -> set[bytes]:
        return {key[:1] for key in kv.keys(namespace=NAMESPACE)}

    until(lambda: kinds() == {b"a"}, "only the detached actor's rows are left")
    keeper = shoal.get_actor("keeper", namespace="tests")
    assert shoal.get(keeper.answer.remote()) == 42
    shoal.kill(keeper)
    until(lambda: kinds() == set(), "no rows are left")


@shoal.remote(max_restarts=-1, max_task_retries=-1)
class Reader:
    """Reads a file of its working directory."""

    def read(self) -> tuple[str, str]:
        node_id = shoal.get_runtime_context().get_node_id()
        return Path("words.txt").read_text(), node_id


def test_packages_outlive_the_home_agent_and_the_node_that_fetched_them(make_cluster, tmp_path):
    """A detached actor moves twice: its node is lost, then the driver's home with the next one."""
    (tmp_path / "words.txt").write_text("some words")
    cluster = make_cluster(num_cpus=0)
    first = cluster.add_node(num_cpus=1, scheduler=True)
    cluster.wait_for_nodes()
    keeper = Reader.options(
        name="keeper", lifetime="detached", runtime_env={"working_dir": str(tmp_path)}
    ).remote()
    assert shoal.get(keeper.read.remote()) == ("some words", first.node_id)
    second = cluster.add_node(num_cpus=1, scheduler=True)
    cluster.wait_for_nodes()
    first.kill()
    assert shoal.get(keeper.read.remote(), timeout=60) == ("some words", second.node_id)
    third = cluster.add_node(num_cpus=1, scheduler=True)
    cluster.wait_for_nodes()
    cluster.nodes[0].kill()
    until(lambda: shoal.get_runtime_context().get_node_id() != cluster.nodes[0].node_id, "a home")
    second.kill()
    assert shoal.get(keeper.read.remote(), timeout=60) == ("some words", third.node_id)
    shoal.kill(keeper)
