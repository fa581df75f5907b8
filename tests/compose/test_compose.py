"""The cluster in containers, in the order of a bad day. Needs an engine: ./run compose."""

import pytest

from tests.compose.compose_project import ComposeProject

pytestmark = [pytest.mark.compose, pytest.mark.timeout(900)]
LONG_ROUNDS = 40


@pytest.fixture(scope="module")
def project():
    project = ComposeProject()
    try:
        project.compose("build", "-q", timeout_s=600)
        project.up(agents=3)
        yield project
    finally:
        project.down()


def right(result, nodes):
    assert result["ok"], result
    assert result["nodes"] == nodes
    return True


def test_a_job_runs_in_a_fresh_cluster(project):
    project.wait_for_nodes(3)
    assert right(project.job(), nodes=3)


def test_the_cluster_grows_to_five(project):
    project.up(agents=5)
    project.wait_for_nodes(5)
    assert right(project.job(), nodes=5)


def test_a_job_survives_a_killed_agent(project):
    job = project.begin_job(LONG_ROUNDS)
    job.reached_round(3)
    project.docker("kill", project.agents()[0])
    assert right(job.result(), nodes=5)
    project.wait_for_nodes(4)
    assert right(project.job(), nodes=4)


def test_a_job_survives_a_cut_cable_and_the_node_comes_back(project):
    cut = project.agents()[0]
    job = project.begin_job(LONG_ROUNDS)
    job.reached_round(3)
    project.docker("network", "disconnect", project.network(), cut)
    assert right(job.result(), nodes=4)
    project.wait_for_nodes(3)
    assert right(project.job(), nodes=3)
    project.docker("network", "connect", "--alias", "agent", project.network(), cut)
    project.wait_for_nodes(4)
    assert right(project.job(), nodes=4)


def test_a_client_without_the_token_is_refused(project):
    words = ("exec", "-T", "-e", "SHOAL_TOKEN=some-other-token-here", "gcs")
    with pytest.raises(AssertionError, match="UNAUTHENTICATED"):
        project.compose(*words, "shoal", "status", "--address", "gcs:7400")
