"""The service as a process: options, port file, parents, SIGKILL, wiping."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from cluster_api.v1 import gcs_pb2 as g
from cluster_api.v1 import gcs_pb2_grpc

START_S = 20


class Gcs:
    """One process on a folder; `address` once it serves."""

    def __init__(self, folder, *options, pass_fds=()):
        self.port_file = folder / f"port-{random.random()}"
        self.errors = (folder / "gcs.err").open("ab")
        command = [sys.executable, "-m", "gcs_service", "--storage-path", str(folder)]
        self.process = subprocess.Popen(
            [*command, "--port-file", str(self.port_file), *options],
            stderr=self.errors,
            pass_fds=pass_fds,
        )

    @property
    def address(self):
        end = time.monotonic() + START_S
        while not self.port_file.exists():
            assert self.process.poll() is None, f"ended with {self.process.returncode}"
            assert time.monotonic() < end, "no port file"
            time.sleep(0.005)
        return self.port_file.read_text()

    def kv(self):
        channel = grpc.insecure_channel(self.address)
        return channel, gcs_pb2_grpc.KvServiceStub(channel)

    def info(self):
        with grpc.insecure_channel(self.address) as channel:
            stub = gcs_pb2_grpc.NodeServiceStub(channel)
            return stub.GetClusterInfo(g.GetClusterInfoRequest(), timeout=10)

    def end(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(START_S)
        self.errors.close()
        return code


@pytest.fixture
def start(tmp_path):
    made = []

    def make(*options, **more):
        made.append(Gcs(tmp_path, *options, **more))
        return made[-1]

    yield make
    for one in made:
        one.end(signal.SIGKILL)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--port", "70000"], "port 70000 is not in 0 .. 65535"),
        (["--storage", "paper"], "'sqlite', 'memory'"),
        (["--storage", "sqlite", "--storage-path", ""], "--storage-path"),
        (["--set", "nonsense"], "name=value"),
        (["--log-level", "LOUD"], "DEBUG, INFO, WARNING, ERROR"),
        (["--sync-scope", "some"], "'schedulers', 'all'"),
        (["--host", "0.0.0.0"], "a token is needed"),
        (["--nope"], "--nope"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed_before_anything_starts(
    tmp_path, options, named
):
    command = [sys.executable, "-m", "gcs_service", "--storage-path", str(tmp_path / "gcs")]
    ended = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=START_S, check=False
    )
    assert ended.returncode == 2
    assert named in ended.stderr
    assert not (tmp_path / "gcs").exists()


def test_a_port_in_use_is_named(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        one = start("--port", str(port))
        assert one.process.wait(START_S) == 3
    one.errors.flush()
    assert f"127.0.0.1:{port}" in Path(one.errors.name).read_text()


def test_sigterm_is_an_orderly_end_and_the_cluster_goes_on(start):
    first = start()
    before = first.info()
    assert first.end() == 0
    second = start()
    after = second.info()
    assert (after.cluster_id, after.epoch) == (before.cluster_id, before.epoch + 1)


def test_wipe_begins_a_new_cluster(start):
    first = start()
    before = first.info()
    first.end()
    after = start("--wipe").info()
    assert after.cluster_id != before.cluster_id
    assert after.epoch == 1


def test_memory_keeps_nothing(start):
    first = start("--storage", "memory")
    before = first.info()
    first.end()
    assert start("--storage", "memory").info().cluster_id != before.cluster_id


def test_the_service_ends_with_its_parent(start):
    reader, writer = os.pipe()
    one = start("--die-with-parent-fd", str(reader), pass_fds=(reader,))
    os.close(reader)
    assert one.address
    os.close(writer)
    assert one.process.wait(START_S) == 0


def test_every_acknowledged_put_survives_sigkill(start):
    """Puts race with the kill; each answered one must be there afterwards."""
    written = 0
    for _life in range(3):
        one = start()
        channel, kv = one.kv()
        with channel:
            kept = kv.Keys(g.KvKeysRequest(prefix=b"k"), timeout=10, wait_for_ready=True).keys
            assert len(kept) >= written
            calls = [
                kv.Put.future(g.KvPutRequest(key=b"k%06d" % (written + n), value=b"v"))
                for n in range(300)
            ]
            calls[100].result(10)
            one.end(signal.SIGKILL)
            written += sum(call.exception(10) is None for call in calls)
    one = start()
    channel, kv = one.kv()
    with channel:
        kept = kv.Keys(g.KvKeysRequest(prefix=b"k"), timeout=10, wait_for_ready=True).keys
        assert len(kept) >= written > 300
