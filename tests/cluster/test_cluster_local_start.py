"""`init` and `shutdown` of a whole program: what starts, what it prints, and that nothing stays."""

from __future__ import annotations

import os
import signal

import pytest

import shoal
from tests.cluster.drivers import run_driver, started_driver
from tests.cluster.waiting import until_gone

HERE = """
import os, time, shoal, psutil
from pathlib import Path
def processes():
    return [each.pid for each in psutil.Process().children(recursive=True)]
"""


def pids_in(text: str) -> list[int]:
    return [int(word) for word in text.split()]


def test_init_starts_a_cluster_and_shutdown_ends_it():
    done = run_driver(
        HERE
        + """
assert not shoal.is_initialized()
context = shoal.init(num_cpus=2, resources={"slot": 1}, labels={"rack": "r1"})
assert shoal.is_initialized()
assert Path(context.address_info["session_dir"], "logs").is_dir()
assert shoal.cluster_resources()["CPU"] == 2
assert shoal.cluster_resources()["slot"] == 1
assert shoal.nodes()[0]["Labels"]["rack"] == "r1"
assert shoal.get(shoal.remote(lambda: 42).remote()) == 42
pids = processes()
assert pids
shoal.shutdown()
assert not shoal.is_initialized()
shoal.shutdown()
assert not processes(), processes()
print(*pids)
"""
    )
    assert done.returncode == 0, done.stderr
    until_gone(pids_in(done.stdout))


def test_an_empty_namespace_is_refused_before_anything_starts():
    with pytest.raises(ValueError, match="not empty"):
        shoal.init(namespace="")
    assert not shoal.is_initialized()


def test_a_program_that_just_ends_leaves_nothing():
    done = run_driver(
        HERE
        + """
shoal.init(num_cpus=1)
actor = shoal.remote(type("Actor", (), {"ping": lambda self: 1})).remote()
shoal.get(actor.ping.remote())
print(*processes())
"""
    )
    assert done.returncode == 0, done.stderr
    until_gone(pids_in(done.stdout))


def test_a_program_killed_by_sigkill_leaves_nothing():
    text = (
        HERE
        + """
shoal.init(num_cpus=1)
shoal.get([shoal.remote(os.getpid).remote() for _ in range(2)])
print(*processes())
time.sleep(600)
"""
    )
    with started_driver(text) as driver:
        pids = pids_in(driver.line())
        driver.kill()
        until_gone(pids, deadline_s=5.0)


def test_ctrl_c_in_a_get_ends_the_program_and_its_cluster():
    text = (
        HERE
        + """
shoal.init(num_cpus=1)
shoal.get(shoal.remote(lambda: 1).remote())
try:
    print(*processes())
    shoal.get(shoal.remote(lambda: time.sleep(600)).remote())
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    with started_driver(text) as driver:
        pids = pids_in(driver.line())
        os.kill(driver.pid, signal.SIGINT)
        assert driver.line() == "interrupted"
        assert driver.process.wait(20) == 0
        until_gone(pids)


def test_a_second_init_is_an_error_unless_it_may_be_ignored():
    done = run_driver("""
        import shoal
        shoal.init(num_cpus=1)
        try:
            shoal.init(num_cpus=1)
        except RuntimeError as error:
            print("refused:", error)
        shoal.init(ignore_reinit_error=True)
        shoal.shutdown()
        shoal.init(num_cpus=3)
        print(shoal.cluster_resources()["CPU"])
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused:")
    assert done.stdout.endswith("3.0\n")


def test_the_first_remote_call_starts_a_cluster_by_itself():
    done = run_driver("""
        import shoal as ray
        @ray.remote
        def double(number):
            return 2 * number
        print(ray.get(double.remote(21)), ray.is_initialized())
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "42 True\n"


def test_output_of_workers_reaches_the_driver_with_name_and_pid():
    done = run_driver("""
        import os, sys, shoal
        shoal.init(num_cpus=1)
        @shoal.remote
        def speak():
            print("hello from the task")
            print("trouble", file=sys.stderr)
            return os.getpid()
        @shoal.remote
        class Speaker:
            def speak(self):
                print("hello from the actor")
                return os.getpid()
        speaker = Speaker.remote()
        pids = shoal.get(speak.remote()), shoal.get(speaker.speak.remote())
        # One write: `print` makes two of it, and a worker's line may come in between.
        sys.stdout.write(f"pids {pids[0]} {pids[1]}\\n")
        shoal.shutdown()
    """)
    assert done.returncode == 0, done.stderr
    task_pid, actor_pid = next(
        line for line in done.stdout.splitlines() if line.startswith("pids")
    ).split()[1:]
    lines = (done.stdout + done.stderr).splitlines()
    task = next(line for line in lines if "hello from the task" in line)
    assert f"pid={task_pid}" in task
    assert "speak" in task
    actor = next(line for line in lines if "hello from the actor" in line)
    assert f"pid={actor_pid}" in actor
    assert "Speaker" in actor
    assert "trouble" in done.stderr


def test_log_to_driver_false_keeps_it_quiet():
    done = run_driver("""
        import shoal
        shoal.init(num_cpus=1, log_to_driver=False)
        shoal.get(shoal.remote(lambda: print("not to be seen")).remote())
        shoal.shutdown()
    """)
    assert done.returncode == 0, done.stderr
    assert "not to be seen" not in done.stdout + done.stderr


def test_an_address_nobody_answers_at_is_a_clear_error():
    done = run_driver("""
        import shoal
        try:
            shoal.init(address="127.0.0.1:1")
        except (ConnectionError, shoal.exceptions.RayError) as error:
            print("refused:", error)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused:")
    assert "127.0.0.1:1" in done.stdout


def test_the_address_variable_is_used():
    with started_driver("""
        import time, shoal
        context = shoal.init(num_cpus=7)
        print(shoal.get_runtime_context().gcs_address)
        time.sleep(600)
    """) as driver:
        address = driver.line()
        done = run_driver(
            """
            import shoal
            shoal.init()
            print(shoal.cluster_resources()["CPU"])
            """,
            address,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout == "7.0\n"


@pytest.mark.parametrize("text", ["shoal.nodes()", "shoal.cluster_resources()"])
def test_what_needs_a_cluster_says_so_without_one(text):
    done = run_driver(f"""
        import shoal
        try:
            {text}
        except RuntimeError as error:
            print("refused:", error)
    """)
    assert "init" in done.stdout, done.stderr
