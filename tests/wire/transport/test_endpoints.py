import os
import socket
import subprocess
import sys
from pathlib import Path

import grpc
import pytest
from grpc._cython import cygrpc

from cluster_api.v1 import gcs_pb2, gcs_pb2_grpc
from cluster_common.transport import endpoints


async def test_a_port_in_use_is_an_error_that_names_it():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port}"):
            endpoints.bind(endpoints.make_server(), "127.0.0.1", port)


async def test_port_zero_is_any_free_port():
    server = endpoints.make_server()
    assert endpoints.bind(server, "127.0.0.1", 0) > 0
    await server.start()
    await server.stop(0)


async def test_a_peer_that_is_not_there_is_gone_and_a_refusal_is_not():
    async with endpoints.make_channel("127.0.0.1:1") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            await gcs_pb2_grpc.KvServiceStub(channel).Get(gcs_pb2.KvGetRequest())
    assert endpoints.is_gone(caught.value)
    assert not endpoints.is_gone(ValueError())
    server = endpoints.make_server()
    port = endpoints.bind(server, "127.0.0.1", 0)
    await server.start()
    async with endpoints.make_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.RpcError) as caught:
            await gcs_pb2_grpc.KvServiceStub(channel).Get(gcs_pb2.KvGetRequest())
    await server.stop(0)
    assert caught.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert not endpoints.is_gone(caught.value)


LEVEL_AT_IMPORT = """
import os, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "grpc":
            print(os.environ.get("GRPC_VERBOSITY"))

sys.meta_path.insert(0, Finder())
import {module}
"""


@pytest.mark.parametrize(
    "module",
    [
        "shoal",
        "shoal.cli.status",
        "driver_client.worker_main",
        "raylet_agent.app",
        "raylet_agent.launcher",
        "gcs_service.app",
        "autoscaler.__main__",
    ],
)
@pytest.mark.parametrize(("stated", "level"), [(None, "ERROR"), ("DEBUG", "DEBUG")])
def test_grpc_is_quiet_unless_the_user_says_otherwise(module, stated, level):
    # It reads its level while it is imported; set later it means nothing.
    env = {name: value for name, value in os.environ.items() if name != "GRPC_VERBOSITY"}
    done = subprocess.run(
        [sys.executable, "-c", LEVEL_AT_IMPORT.format(module=module)],
        env=env if stated is None else env | {"GRPC_VERBOSITY": stated},
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == [level]


def test_every_option_is_one_that_grpc_knows():
    # It ignores others: a wrong name once ended idle connections with too_many_pings.
    core = Path(cygrpc.__file__).read_bytes()
    stated = {name for name, _ in (*endpoints.SERVER_OPTIONS, *endpoints.CHANNEL_OPTIONS)}
    assert {name for name in stated if name.encode() not in core} == set()
