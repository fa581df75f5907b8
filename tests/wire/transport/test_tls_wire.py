"""Mutual TLS over real gRPC: only who shows a certificate of the same authority gets in."""

import asyncio
import os

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from cluster_common.transport import auth, endpoints, tls
from tests.certificates import Authority

FILES = ("SHOAL_TLS_CERT", "SHOAL_TLS_KEY", "SHOAL_TLS_CA")


@pytest.fixture
def be(monkeypatch):
    """Gives this process other certificates (or none)."""

    def become(variables):
        for name in FILES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        tls.forget()

    yield become
    monkeypatch.undo()
    tls.forget()


@pytest.fixture
def ours(tmp_path):
    return Authority("ours").write(tmp_path / "ours")


@pytest.fixture
async def address(be, ours):
    be(ours)
    server = endpoints.make_server()
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = endpoints.bind(server, "127.0.0.1", 0)
    await server.start()
    yield f"127.0.0.1:{port}"
    await server.stop(0)


async def ask(address):
    async with endpoints.make_channel(address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        return await stub.Check(health_pb2.HealthCheckRequest(), timeout=5)


async def test_a_certificate_of_the_authority_opens_the_door(address):
    assert (await ask(address)).status == health_pb2.HealthCheckResponse.SERVING


async def test_plain_connections_and_other_authorities_are_refused(address, be, ours, tmp_path):
    theirs = Authority("theirs").write(tmp_path / "theirs")
    mixed = {**theirs, "SHOAL_TLS_CA": ours["SHOAL_TLS_CA"]}
    for variables in ({}, theirs, mixed):
        be(variables)
        with pytest.raises(grpc.RpcError) as caught:
            await ask(address)
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    be(ours)
    await ask(address)


async def test_the_blocking_channel_shows_its_certificate_too(address):
    with endpoints.make_blocking_channel(address) as channel:
        call = health_pb2_grpc.HealthStub(channel).Check.future(
            health_pb2.HealthCheckRequest(), timeout=5
        )
        done = asyncio.get_running_loop().run_in_executor(None, call.result)
        assert (await done).status == health_pb2.HealthCheckResponse.SERVING


def test_mutual_tls_allows_a_host_that_others_can_reach(be, ours):
    auth.configure(None)
    try:
        with pytest.raises(ValueError, match="SHOAL_TLS_CERT"):
            auth.require_token_for("10.0.0.5")
        be(ours)
        auth.require_token_for("10.0.0.5")
    finally:
        auth.forget()


def test_half_a_set_of_files_is_refused_by_name(be, ours):
    del ours["SHOAL_TLS_KEY"]
    be(ours)
    with pytest.raises(ValueError, match="without SHOAL_TLS_KEY"):
        tls.current()


@pytest.mark.parametrize(("content", "words"), [(None, "No such file"), ("hello", "no PEM file")])
def test_a_wrong_file_is_named(be, ours, tmp_path, content, words):
    path = tmp_path / "wrong.pem"
    if content is not None:
        path.write_text(content)
    be({**ours, "SHOAL_TLS_CA": str(path)})
    with pytest.raises(ValueError, match=words) as caught:
        tls.current()
    assert "SHOAL_TLS_CA" in str(caught.value)
    assert os.fspath(path) in str(caught.value)
