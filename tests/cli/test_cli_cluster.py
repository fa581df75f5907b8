"""The command line against real processes."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.process_states import running

pytestmark = pytest.mark.cluster
COMMAND_S = 60
SMALL = ("--num-cpus", "1", "--memory", "100000000")


class Machine:
    """`shoal` as called on one machine: its records and logs are in a folder of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.env = {**os.environ, "SHOAL_TEMP_DIR": str(folder)}
        for name in ("SHOAL_ADDRESS", "SHOAL_TOKEN", "SHOAL_TOKEN_FILE"):
            self.env.pop(name, None)

    def begin(self, *words):
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("shoal")), *words],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words):
        process = self.begin(*words)
        out, err = process.communicate(timeout=COMMAND_S)
        return process.returncode, out, err

    def ok(self, *words):
        code, out, err = self.call(*words)
        assert code == 0, (words, out, err)
        return out

    def json(self, *words):
        return json.loads(self.ok(*words, "--json"))


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    machine.call("stop", "--grace-s", "2")


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """A machine with a head that all tests of this module may ask."""
    machine = Machine(tmp_path_factory.mktemp("head"))
    machine.started = machine.json("start", "--head", "--port", "0", *SMALL)
    yield machine
    machine.ok("stop")


def test_the_cluster_started_last_answers_without_an_address(head):
    status = head.json("status")
    assert status["address"] == head.started["gcs_address"]
    assert status["nodes"] == {"alive": 1, "draining": 0, "dead": 0}
    assert status["resources"]["total"]["CPU"] == 1
    assert status["storage"] == "sqlite"


def test_status_for_people_names_the_essentials(head):
    text = head.ok("status", "-v")
    for word in ("1 alive", "resources", "CPU", "executors", "core", "waiting groups: none"):
        assert word in text


UNCAPPED = {"bundle", "node_view", "deadline"}
"""Of an agent: as many as its resources hold, as the cluster has nodes, as there are waits."""


def test_status_shows_sizes_and_caps_of_what_the_service_and_the_agents_keep(head):
    status = head.json("status", "-v")
    rows = {row["name"]: row for row in status["tables"]}
    assert rows["node"]["rows"] == 1
    assert [name for name, row in rows.items() if not row["rows_max"]] == ["storage"]
    agents = status["agents"]
    assert (agents["asked"], agents["answered"]) == (1, 1)
    tables = agents["tables"]
    assert {"lease_waiting", "owner_dead", "worker", "task_event", "ended_log"} <= tables.keys()
    assert {name for name, row in tables.items() if not row["rows_max"]} == UNCAPPED
    assert all(row["rows"] <= row["rows_max"] or name in UNCAPPED for name, row in tables.items())
    assert "tables of agents" in head.ok("status", "-v")


def test_a_drain_says_why_until_the_node_is_gone_and_after(machine):
    head = machine.json("start", "--head", "--port", "0", *SMALL)
    # It has a driver, so that it stays until its deadline.
    script = "import shoal, sys; shoal.init(sys.argv[1]); print('in', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, head["gcs_address"]],
        env=machine.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as driver:
        assert driver.stdout.readline() == b"in\n"
        told = ("--reason", "preemption", "--deadline", "600", "--message", "spot reclaim")
        machine.ok("drain", head["node_id"][:8], *told)
        draining = machine.json("status")["draining"]
        assert [row["drain_message"] for row in draining] == ["preemption: spot reclaim"]
        assert draining[0]["drain_deadline"]
        for text in (machine.ok("status"), machine.ok("list", "nodes")):
            assert "preemption: spot reclaim" in text
        driver.stdin.close()
    end = time.monotonic() + COMMAND_S
    while (row := machine.json("list", "nodes")["rows"][0])["state"] != "DEAD":
        assert time.monotonic() < end, row
    assert row["death_cause"] == "PREEMPTED"
    assert row["death_message"].startswith("preempted: spot reclaim; last contact")
    assert "PREEMPTED" in machine.ok("list", "nodes")


def test_lists_state_totals(head):
    nodes = head.json("list", "nodes", "--limit", "1")
    assert nodes["total"] == 1
    assert not nodes["truncated"]
    assert nodes["rows"][0]["node_id"] == head.started["node_id"]
    assert head.json("list", "actors")["rows"] == []
    assert head.json("list", "placement-groups")["rows"] == []


def test_the_books_agree(head):
    assert head.json("check-ledger") == {"nodes": 1, "bundles": 0, "differences": []}


def test_everything_started_here_is_healthy(head):
    assert "serving" in head.ok("healthcheck")


def test_unknown_things_are_said_with_what_there_is(head):
    code, _, err = head.call("drain", "zz", "--reason", "idle")
    assert code == 2
    assert f"node 'zz' is not known: {head.started['node_id'][:12]}" in err
    code, _, err = head.call("explain", "no-such-group")
    assert code == 1
    assert "no placement group is named 'no-such-group'" in err


def test_another_node_joins_and_stop_ends_all(machine):
    head = machine.json("start", "--head", "--port", "0", *SMALL)
    joined = machine.json(
        "start", "--address", head["gcs_address"], "--labels", "rack=r1", "--num-cpus", "3"
    )
    rows = {row["node_id"]: row for row in machine.json("list", "nodes")["rows"]}
    assert rows[joined["node_id"]]["labels"]["rack"] == "r1"
    assert rows[joined["node_id"]]["total"]["CPU"] == 3
    assert "ended 3 processes" in machine.ok("stop")
    pids = [process["pid"] for one in (head, joined) for process in one["processes"]]
    assert not running(pids)
    assert [path.name for path in machine.folder.rglob("*") if path.is_file()] == []


def test_a_taken_port_is_said_and_nothing_stays(machine):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        code, _, err = machine.call("start", "--head", "--port", str(port), *SMALL)
    assert code == 1
    assert f"cannot listen on 127.0.0.1:{port}" in err
    assert "nothing started" in machine.ok("stop")


def test_joining_a_cluster_that_is_not_there_fails_in_a_bounded_time(machine):
    code, _, err = machine.call("start", "--address", "127.0.0.1:1", *SMALL)
    assert code == 1
    assert "the GCS at 127.0.0.1:1 did not answer" in err


def test_block_ends_everything_at_a_signal(machine):
    process = machine.begin("start", "--head", "--port", "0", "--block", *SMALL)
    said = []
    for line in process.stdout:
        said.append(line)
        if "Ctrl-C ends it" in line:
            break
    pids = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
    assert len(pids) >= 2, said
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=COMMAND_S)
    assert process.returncode == 0, err
    assert not running(pids)


def test_a_head_for_other_machines_makes_a_private_token_and_asks_for_it(machine):
    started = machine.json("start", "--head", "--host", "auto", "--port", "0", *SMALL)
    assert not started["gcs_address"].startswith("127.")
    file = Path(started["token_file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert machine.json("status")["nodes"]["alive"] == 1
    stranger = Machine(machine.folder / "stranger")
    code, _, err = stranger.call("status", "--address", started["gcs_address"])
    assert code == 1
    assert "UNAUTHENTICATED" in err
    stranger.env["SHOAL_TOKEN_FILE"] = str(file)
    assert stranger.json("status", "--address", started["gcs_address"])["nodes"]["alive"] == 1
