"""PackageService: drivers bring packages to their home agent, other agents fetch them there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import agent_pb2_grpc
from cluster_common import limits as common_limits
from cluster_common.runtime_packages import DIGEST_BYTES
from raylet_agent import limits
from raylet_agent.shell.environment_store import EnvironmentStore
from raylet_agent.shell.package_store import PackageError


class PackageServicer(agent_pb2_grpc.PackageServiceServicer):
    """One instance per agent."""

    def __init__(self, environments: EnvironmentStore) -> None:
        self._environments = environments
        self._turns = asyncio.Semaphore(limits.PACKAGE_STREAMS_MAX)

    async def Hold(  # noqa: N802 - the name in the contract
        self, request: a.HoldPackageRequest, context: aio.ServicerContext[Any, Any]
    ) -> a.HoldPackageResponse:
        """Keeps a package for a job, if it is here."""
        await _check(request.digest, context)
        held = self._environments.hold(request.digest, request.job_id)
        return a.HoldPackageResponse(held=held)

    async def Put(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self, _requests: object, context: aio.ServicerContext[a.PackageChunk, a.HoldPackageResponse]
    ) -> a.HoldPackageResponse:
        """Takes a package and keeps it for the job that brings it."""
        first: Any = await context.read()
        if first is aio.EOF:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the stream is empty")
        await _check(first.digest, context)

        async def chunks() -> AsyncIterator[a.PackageChunk]:
            chunk = first
            while chunk is not aio.EOF:
                yield chunk
                chunk = await context.read()

        store = self._environments.packages
        async with self._turns:
            if not self._environments.hold(first.digest, first.job_id):
                try:
                    async with asyncio.timeout(limits.PACKAGE_CALL_S_MAX):
                        await store.take(first.digest, chunks())
                except (PackageError, OSError) as error:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
                self._environments.took(first.digest, first.job_id)
        return a.HoldPackageResponse(held=True)

    async def Get(  # noqa: N802 # pyright: ignore[reportIncompatibleMethodOverride] - the stub knows both kinds of server
        self,
        request: a.GetPackageRequest,
        context: aio.ServicerContext[a.GetPackageRequest, a.PackageChunk],
    ) -> None:
        """Sends a package that is here."""
        await _check(request.digest, context)
        store = self._environments.packages
        async with self._turns:
            if not store.has(request.digest):
                text = f"package {request.digest.hex()[:12]} is not here"
                await context.abort(grpc.StatusCode.NOT_FOUND, text)
            chunk = a.PackageChunk(
                digest=request.digest, size_bytes=store.size_bytes(request.digest)
            )
            with store.path(request.digest).open("rb") as file:
                while data := file.read(common_limits.PACKAGE_CHUNK_BYTES):
                    chunk.data = data
                    await context.write(chunk)
                    chunk = a.PackageChunk()


async def _check(digest: bytes, context: aio.ServicerContext[Any, Any]) -> None:
    if len(digest) != DIGEST_BYTES:
        text = f"a package's digest has {DIGEST_BYTES} bytes, not {len(digest)}"
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
