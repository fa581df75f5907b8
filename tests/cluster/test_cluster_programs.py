"""The demo and the examples as whole programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.drivers import environment
from tests.cluster.waiting import until

PROJECT = Path(__file__).parents[2]
DEADLINE_S = 60
DEMO = [sys.executable, "-c", "import sys; from shoal.demo import run; sys.exit(run())"]

INTERRUPTED_START = """
import os, signal, sys, threading
from shoal.demo import run

start = threading.Thread.start

def interrupt(self, moment):
    if {thread!r} in self.name and moment == {moment!r}:
        os.kill(os.getpid(), signal.SIGINT)

def start_and_interrupt(self):
    interrupt(self, "before")
    start(self)
    interrupt(self, "after")

threading.Thread.start = start_and_interrupt
sys.exit(run())
"""
"""The demo, interrupted when a thread is about to start, or has just been started."""


def marked(temp_dir: Path) -> list[int]:
    """Processes that carry the temp folder's path in their environment."""
    entry = f"SHOAL_TEMP_DIR={temp_dir}".encode()
    found: list[int] = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdigit() and entry in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.fixture
def variables(tmp_path):
    values = environment(None) | {"SHOAL_TEMP_DIR": str(tmp_path / "shoal")}
    yield values
    until(lambda: not marked(tmp_path / "shoal"), "no process is left behind")
    assert not (tmp_path / "shoal").exists()


def test_the_demo_gets_every_number_right(variables):
    done = subprocess.run(
        DEMO, env=variables, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WRONG" not in done.stdout
    assert "left behind" in done.stdout


@pytest.mark.parametrize("seen", ["", "GCS and 6 agents started", "12 actors answered", "SIGKILL"])
@pytest.mark.parametrize("number", [signal.SIGINT])
def test_an_interrupted_demo_cleans_up(variables, seen, number):
    with subprocess.Popen(
        DEMO, env=variables | {"PYTHONUNBUFFERED": "1"}, stdout=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None
        if not seen:
            until(lambda: (Path(variables["SHOAL_TEMP_DIR"])).exists(), "the demo has begun")
        while seen and seen not in (line := demo.stdout.readline()):
            assert line, "the demo ended early"
        os.kill(demo.pid, number)
        demo.stdout.read()
        assert demo.wait(DEADLINE_S) == 130


@pytest.mark.parametrize("thread", ["agent-launcher", "(_run)", "shoal-io"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_an_interrupt_while_a_part_of_the_demo_starts_leaves_nothing(variables, thread, moment):
    """Between the start of a thread or process and whoever is to end it nothing may get lost."""
    done = subprocess.run(
        [*DEMO[:2], INTERRUPTED_START.format(thread=thread, moment=moment)],
        env=variables,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
    assert "left behind" not in done.stdout


@pytest.mark.parametrize("name", ["hello_tasks", "gang_training", "explain_pending_group"])
def test_an_example_runs(variables, name):
    done = subprocess.run(
        [sys.executable, str(PROJECT / "examples" / f"{name}.py")],
        env=variables,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout
