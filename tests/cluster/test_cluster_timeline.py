"""`timeline`: what ran where and when, in Chrome's tracing format."""

from __future__ import annotations

import json
import os
import time

import pytest

import shoal
from shoal.gcs_calls import agent_state
from tests.cluster.drivers import run_driver
from tests.cluster.remote_code import AsyncMeeting, Counter, gated, increment
from tests.cluster.waiting import until


@pytest.fixture(scope="module")
def cluster(one_node):
    one_node.add_node(num_cpus=1, resources={"other": 1}, node_name="second")
    return one_node


def spans(name: str) -> list[dict]:
    return [e for e in shoal.timeline() if e["ph"] == "X" and e["name"].endswith(name)]


def named(events: list[dict], kind: str) -> dict[tuple, str]:
    return {
        (e["pid"], e.get("tid", 0)): e["args"]["name"]
        for e in events
        if e["ph"] == "M" and e["name"] == kind
    }


@shoal.remote
def parent(count: int) -> list[int]:
    return shoal.get([increment.remote(number) for number in range(count)])


@shoal.remote
def fail() -> None:
    raise LookupError


def test_executions_have_the_shape_that_chrome_reads(cluster, tmp_path):
    before = time.time()
    here = increment.options(resources={"node:__internal_head__": 0.001}).remote(0)
    references = [here, *(increment.remote(number) for number in range(20))]
    there = increment.options(resources={"other": 1}).remote(1)
    shoal.get([*references, there])
    after = time.time()
    path = tmp_path / "trace.json"
    assert shoal.timeline(str(path)) is None
    events = json.loads(path.read_text())
    seen = {e["args"]["task_id"]: e for e in events if e["ph"] == "X" and e["cat"] == "task"}
    for reference in [*references, there]:
        event = seen[reference.task_id().hex()]
        assert event["name"] == "increment"
        assert before <= event["ts"] / 1e6 <= after
        assert 0 <= event["dur"] / 1e6 <= after - before
        assert event["args"]["state"] == "FINISHED"
        assert event["args"]["job_id"] == shoal.get_runtime_context().get_job_id()
        worker = named(events, "thread_name")[event["pid"], event["tid"]]
        assert worker == f"worker:{event['args']['worker_id']}"
    elsewhere = seen[there.task_id().hex()]
    assert named(events, "process_name")[elsewhere["pid"], 0] == "Node second"
    assert elsewhere["pid"] != seen[here.task_id().hex()]["pid"]


def test_actors_nested_tasks_errors_and_waits_are_told_apart(cluster, gate):
    counter = Counter.remote()
    assert shoal.get([counter.add.remote() for _ in range(3)]) == [1, 2, 3]
    meeting = AsyncMeeting.remote(2)
    shoal.get([meeting.join.remote() for _ in range(2)])
    shoal.get(parent.remote(3))
    with pytest.raises(LookupError):
        shoal.get(fail.remote())
    waited = gated.remote(gate.path)
    assert shoal.wait([waited], timeout=0.01) == ([], [waited])
    gate.open()
    shoal.get(waited)
    mine = counter._actor_id.hex()
    assert [e["cat"] for e in spans("Counter.add") if e["args"]["actor_id"] == mine] == [
        "actor_task"
    ] * 3
    made = [e for e in spans("Counter.__init__") if e["args"]["actor_id"] == mine]
    assert [(e["cat"], e["args"]["task_id"]) for e in made] == [("actor_creation", mine)]
    assert len(spans("AsyncMeeting.join")) == 2
    outer = spans("parent")[-1]
    inner = [e for e in spans("get") if e["args"]["task_id"] == outer["args"]["task_id"]]
    assert all(e["cat"] == "wait" and e["tid"] == outer["tid"] for e in inner)
    assert spans("fail")[-1]["args"]["state"] == "FAILED"
    own = [e for e in spans("wait") if e["args"]["os_pid"] == os.getpid()]
    assert own[-1]["dur"] >= 10_000


def test_what_a_killed_actor_did_before_stays_known(cluster):
    counter = Counter.remote()
    shoal.get(counter.add.remote())
    mine = counter._actor_id.hex()
    assert [e for e in spans("Counter.add") if e["args"]["actor_id"] == mine]
    shoal.kill(counter)
    assert [e for e in spans("Counter.add") if e["args"]["actor_id"] == mine]


def test_workers_send_by_themselves_soon(cluster):
    """Nobody asks: the agent has what was done, for when its workers are gone."""

    def known() -> int:
        return sum(agent_state(n.address).counters["task_events"] for n in cluster.nodes)

    before = known()
    shoal.get([increment.remote(number) for number in range(50)])
    until(lambda: known() >= before + 50, "the agent has them")


def test_an_exit_takes_nothing_with_it(cluster):
    @shoal.remote(max_calls=1)
    def only_once() -> None:
        return None

    references = [only_once.remote() for _ in range(5)]
    shoal.get(references)
    wanted = {reference.task_id().hex() for reference in references}
    until(
        lambda: wanted <= {e["args"]["task_id"] for e in spans("only_once")},
        "workers that ended sent what they did",
    )


def test_functions_and_classes_can_ask_not_to_be_recorded(cluster):
    @shoal.remote(enable_task_events=False)
    def quiet_task() -> None:
        return None

    @shoal.remote(num_cpus=0, enable_task_events=False)
    class QuietActor:
        def call(self) -> None:
            return None

        @shoal.method(enable_task_events=True)
        def heard(self) -> None:
            return None

    quiet = QuietActor.remote()
    shoal.get([quiet_task.remote(), quiet.call.remote(), quiet.heard.remote()])
    once = increment.options(enable_task_events=False).remote(1)
    shoal.get(once)
    events = [e for e in shoal.timeline() if e["ph"] == "X"]
    names = {e["name"] for e in events}
    assert once.task_id().hex() not in {e["args"]["task_id"] for e in events if e["cat"] == "task"}
    assert not [name for name in names if "quiet_task" in name or name.endswith("QuietActor.call")]
    assert not [name for name in names if name.endswith("QuietActor.__init__")]
    assert [name for name in names if name.endswith("QuietActor.heard")]


def test_nothing_is_recorded_where_the_environment_says_so(monkeypatch):
    monkeypatch.setenv("SHOAL_TASK_EVENTS", "0")
    text = """
        import shoal
        shoal.init(num_cpus=1)
        @shoal.remote
        def task():
            return 1
        assert shoal.get(task.remote()) == 1
        print(shoal.timeline())
    """
    done = run_driver(text)
    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr
