"""What the command line says before it talks to anybody."""

import json
import os
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from shoal.cli import started
from shoal.cli.main import COMMANDS, group


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.setenv("SHOAL_TEMP_DIR", str(tmp_path))
    monkeypatch.delenv("SHOAL_ADDRESS", raising=False)
    return lambda *words: CliRunner().invoke(group, words)


@pytest.mark.parametrize("name", [n for n in COMMANDS if n != "demo"])
def test_every_command_has_help_with_examples(call, name):
    result = call(name, "--help")
    assert result.exit_code == 0
    assert "Examples:" in result.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["start"], "either --head"),
        (["start", "--head", "--address", "a:1"], "either --head"),
        (["start", "--head", "--port", "70000"], "0<=x<=65535"),
        (["start", "--head", "--labels", "rack"], "'rack' is not key=value"),
        (["start", "--head", "--labels", "ra ck=1"], "label 'ra ck'"),
        (["start", "--head", "--resources", "[1]"], "is not a JSON object"),
        (["start", "--head", "--resources", "{"], "is not JSON"),
        (["start", "--head", "--resources", '{"x": -1}'], "resource 'x'"),
        (["start", "--head", "--num-gpus", "1.5"], "resource 'GPU'"),
        (["start", "--head", "--num-cpus", "0.00001"], "finer than the smallest step"),
        (["start", "--address", "nowhere"], "is not host:port"),
        (["start", "--head", "--via", "a:1"], "--via is for nodes that join"),
        (["start", "--address", "a:1", "--via", "r7"], "--via 'r7' is not host:port"),
        (["start", "--address", "a:1", "--port", "3"], "--port belongs to the GCS"),
        (["start", "--address", "a:1", "--storage-path", "x"], "--storage-path belongs to the GCS"),
        (["start", "--address", "10.0.0.9:1", "--host", "10.0.0.1"], "a token is needed"),
        (["list", "things"], "'nodes', 'actors', 'placement-groups'"),
        (["list", "nodes", "--limit", "0"], "1<=x<=10000"),
        (["list", "nodes"], "no cluster address"),
        (["status", "--address", "x"], "is not host:port"),
        (["drain", "n"], "--reason"),
        (["drain", "n", "--reason", "boredom"], "'preemption', 'idle'"),
        (["drain", "n", "--reason", "idle", "--deadline", "-1"], "0<=x<="),
    ],
)
def test_wrong_options_are_named_before_anything_starts(call, words, said):
    result = call(*words)
    assert result.exit_code == 2, result.output
    assert said in result.output


def test_a_cluster_that_does_not_answer_is_said_in_one_sentence(call, monkeypatch):
    monkeypatch.setattr("shoal.gcs_calls.GcsCalls.__init__.__kwdefaults__", {"timeout_s": 0.1})
    result = call("status", "--address", "127.0.0.1:1")
    assert result.exit_code == 1
    assert "the GCS at 127.0.0.1:1 did not answer within 0.1 s" in result.output


def test_stop_with_nothing_started_says_so(call):
    result = call("stop")
    assert result.exit_code == 0
    assert "nothing started" in result.output


def test_healthcheck_of_nothing_fails(call):
    assert call("healthcheck").exit_code == 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_made(call, shell):
    result = call("completion", shell)
    assert result.exit_code == 0
    assert "_SHOAL_COMPLETE" in result.output


def record(pid, created_s=None, address="127.0.0.1:7"):
    process = started.StartedProcess.of("gcs", pid, address)
    if created_s is not None:
        process = started.StartedProcess("gcs", pid, created_s, address)
    return started.Started(address, "session", "", [process])


def test_the_newest_cluster_that_runs_here_is_the_default(call, tmp_path):
    record(os.getpid(), address="127.0.0.1:7").save(tmp_path)
    record(os.getpid(), created_s=1.0, address="127.0.0.1:8").save(tmp_path)
    assert started.find_address(None) == "127.0.0.1:7"
    assert started.find_address("127.0.0.1:9") == "127.0.0.1:9"


def test_a_pid_that_is_used_again_is_not_signalled(call, tmp_path):
    path = record(os.getpid(), created_s=1.0).save(tmp_path)
    result = call("stop")
    assert "nothing started" in result.output
    assert not path.exists()


def test_records_are_private_and_numbered(tmp_path):
    first = record(os.getpid()).save(tmp_path)
    second = record(os.getpid()).save(tmp_path)
    assert (first.stem, second.stem) == ("1", "2")
    assert first.stat().st_mode & 0o077 == 0
    assert [path for path, _ in started.records(tmp_path)] == [second, first]
    assert json.loads(first.read_text())["session"] == "session"


@pytest.mark.parametrize("address", ["", "host", "host:", ":1", "host:0", "host:99999", "host:x"])
def test_an_address_is_host_and_port(address):
    with pytest.raises(click.UsageError, match="is not host:port"):
        started.check_address(address)


def test_an_interrupt_ends_a_command_with_130():
    program = """
import sys
from shoal.cli.main import main

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "shoal.cli.status":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
sys.argv = ["shoal", "status"]
main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (130, b"")
