import signal

import pytest

from shoal import child_process
from shoal.child_process import ChildProcess, ProcessStartError, tail_of, wait_for_port_file

MODULE = "tests.unit.shoal.fake_service"
END_S = 10


def start(tmp_path, *flags):
    port_file = tmp_path / "port"
    log = tmp_path / "log"
    child = ChildProcess(MODULE, ["--port-file", str(port_file), *flags], log_file=log)
    return child, port_file, lambda: tail_of(log)


def test_a_process_that_is_ready_says_where(tmp_path):
    child, port_file, tail = start(tmp_path)
    assert wait_for_port_file("it", child, port_file, tail) == "127.0.0.1:1"
    assert child_process.stop(child) == -signal.SIGTERM


def test_a_process_that_ends_first_is_an_error_with_its_last_words(tmp_path):
    child, port_file, tail = start(tmp_path, "--fail")
    with pytest.raises(ProcessStartError, match=r"(?s)it ended with exit code 3.*disk is on fire"):
        wait_for_port_file("it", child, port_file, tail)


def test_a_late_process_is_killed_and_said(tmp_path):
    child, _, tail = start(tmp_path)
    with pytest.raises(ProcessStartError, match="it was not ready within 0 s"):
        wait_for_port_file("it", child, tmp_path / "other", tail, deadline_s=0)
    assert child.wait(0) == -signal.SIGKILL


def test_a_process_that_ignores_the_polite_signal_is_killed(tmp_path):
    child, port_file, tail = start(tmp_path, "--stubborn")
    wait_for_port_file("it", child, port_file, tail)
    assert child_process.stop(child, grace_s=0.01) == -signal.SIGKILL


def test_the_child_ends_when_its_lifeline_is_cut(tmp_path):
    child, port_file, tail = start(tmp_path)
    wait_for_port_file("it", child, port_file, tail)
    child._lifeline.cut()  # What the kernel does when the parent dies.
    assert child.wait(END_S) == 0


def test_the_child_ends_when_nobody_has_it_any_more(tmp_path):
    child, port_file, tail = start(tmp_path)
    wait_for_port_file("it", child, port_file, tail)
    process = child._process
    del child
    assert process.wait(END_S) == 0


def test_signals_after_the_end_do_nothing(tmp_path):
    child, *_ = start(tmp_path, "--fail")
    assert child.wait(END_S) == 3
    child.send(signal.SIGTERM)
    assert child_process.kill(child) == 3


def test_a_log_says_where_it_is_when_it_is_empty(tmp_path):
    (tmp_path / "log").touch()
    assert tail_of(tmp_path / "log") == f"; it wrote nothing to {tmp_path / 'log'}"


@pytest.mark.parametrize(
    ("status", "text"), [(3, "exit code 3"), (-9, "signal SIGKILL"), (-99, "signal 99")]
)
def test_an_end_is_described(status, text):
    assert child_process.describe(status) == text
