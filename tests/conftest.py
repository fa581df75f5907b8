"""The whole run: nothing may be left behind. Fixtures for small clusters of real processes."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import uuid
from pathlib import Path

import psutil
import pytest

MARK_VARIABLE = "SHOAL_TEST_RUN"
END_GRACE_S = 5.0
SHARED_MEMORY = Path("/dev/shm")


def pytest_configure(config):
    # A shell that runs the tests in its background ignores Ctrl-C for all of them, and what they
    # start inherits that; tests that interrupt programs need the default.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SHOAL_ADDRESS", "SHOAL_TOKEN", "SHOAL_TOKEN_FILE"):
        os.environ.pop(name, None)
    # Every process started by a test inherits the mark, whoever its parent is later.
    os.environ[MARK_VARIABLE] = uuid.uuid4().hex
    config.shoal_temp_dir = tempfile.mkdtemp(prefix="shoal-test-")
    os.environ["SHOAL_TEMP_DIR"] = str(Path(config.shoal_temp_dir) / "t")
    config.shoal_shared_memory = _shared_memory()


def pytest_sessionfinish(session, exitstatus):
    config = session.config
    problems = _leaked_processes() + [
        f"shared memory {name}" for name in sorted(_shared_memory() - config.shoal_shared_memory)
    ]
    shutil.rmtree(config.shoal_temp_dir, ignore_errors=True)
    if problems and exitstatus in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    config.shoal_problems = problems


def pytest_terminal_summary(terminalreporter, config):
    for problem in getattr(config, "shoal_problems", []):
        terminalreporter.write_line(f"LEAKED: {problem}", red=True)


def _leaked_processes():
    """Marked processes that still run after a grace; they are ended, and that is a failure."""
    end = time.monotonic() + END_GRACE_S
    while (left := _marked_processes()) and time.monotonic() < end:
        psutil.wait_procs(left, timeout=0.2)
    texts = []
    for process in left:
        try:
            texts.append(f"process {process.pid} {' '.join(process.cmdline())[:200]}")
            process.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    return texts


def _marked_processes():
    mark = os.environ[MARK_VARIABLE]
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = process.pid != os.getpid() and process.status() != psutil.STATUS_ZOMBIE
            if is_ours and process.environ().get(MARK_VARIABLE) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def _shared_memory():
    return {path.name for path in SHARED_MEMORY.glob("shoal*")} if SHARED_MEMORY.exists() else set()


@pytest.fixture
def cluster():
    """A connected cluster: a head with 2 CPUs."""
    from shoal.cluster_utils import Cluster

    with Cluster(initialize_head=True, connect=True, head_node_args={"num_cpus": 2}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def local():
    """`shoal`, connected to a local cluster with 4 CPUs for the tests of one module."""
    import shoal

    shoal.init(num_cpus=4)
    try:
        yield shoal
    finally:
        shoal.shutdown()
