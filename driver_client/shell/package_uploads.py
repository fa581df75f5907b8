"""Brings packages to this process's agent and writes into the directory where they are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import grpc

from cluster_api.v1 import agent_pb2 as pb
from cluster_api.v1 import agent_pb2_grpc as rpc
from cluster_api.v1 import gcs_pb2 as gcs
from cluster_common import limits as common_limits
from cluster_common import runtime_packages
from cluster_common.runtime_packages import Package
from cluster_common.transport.endpoints import make_channel
from driver_client import limits
from driver_client.exceptions import RuntimeEnvSetupError
from driver_client.shell.gcs_link import GcsLink
from driver_client.shell.package_archives import LocalPackage
from driver_client.shell.process_facts import ProcessFacts


class PackageUploads:
    """I/O thread only. Args: who we are, and the channel to the GCS."""

    def __init__(self, facts: ProcessFacts, gcs_link: Callable[[], GcsLink]) -> None:
        self._facts = facts
        self._gcs = gcs_link
        self._sent: dict[bytes, LocalPackage] = {}
        self._kept_for: dict[bytes, list[Package]] = {}

    def is_sent(self, package: LocalPackage) -> bool:
        """Whether this process brought it already."""
        return package.package.digest in self._sent

    async def send(self, packages: Iterable[LocalPackage]) -> None:
        """Brings what was not brought yet.

        Raises:
            RuntimeEnvSetupError: the agent refuses, or cannot be reached; names the package.
        """
        for package in packages:
            if not self.is_sent(package):
                await self._send_one(package)
                self._sent[package.package.digest] = package

    async def home_moved(self) -> None:
        """The agent that had them is gone: another one gets them."""
        for package in list(self._sent.values()):
            await self._send_one(package)
        for actor_id, packages in list(self._kept_for.items()):
            for package in packages:
                if package.digest in self._sent:
                    prefix = runtime_packages.actor_prefix(actor_id)
                    await self._write_row(prefix, package, self._facts.agent_address, new=False)

    async def keep_for_actor(self, packages: list[Package], actor_id: bytes) -> None:
        """A detached actor outlives the job whose rows name its packages: it gets its own."""
        if packages:
            self._kept_for[actor_id] = packages
            if len(self._kept_for) > limits.PACKAGE_ACTORS_REMEMBERED_MAX:
                del self._kept_for[next(iter(self._kept_for))]
        link = self._gcs()
        job = runtime_packages.job_prefix(self._facts.job_id)
        for package in packages:
            row = await link.call(
                link.kv.Get,
                gcs.KvGetRequest(namespace=runtime_packages.NAMESPACE, key=job + package.digest),
            )
            for address in runtime_packages.holders(row.value):
                await self._write_row(runtime_packages.actor_prefix(actor_id), package, address)

    async def forget_actor(self, actor_id: bytes) -> None:
        """There will be no such actor."""
        self._kept_for.pop(actor_id, None)
        link = self._gcs()
        prefix = runtime_packages.actor_prefix(actor_id)
        space = runtime_packages.NAMESPACE
        await link.call(
            link.kv.Delete, gcs.KvDeleteRequest(namespace=space, key=prefix, prefix=True)
        )

    async def _send_one(self, package: LocalPackage) -> None:
        address = self._facts.agent_address
        channel = make_channel(address)
        try:
            stub: Any = rpc.PackageServiceStub(channel)
            request = pb.HoldPackageRequest(
                digest=package.package.digest, job_id=self._facts.job_id
            )
            held = await stub.Hold(request, timeout=limits.PACKAGE_HOLD_S_MAX)
            if not held.held:
                await self._stream(stub, package)
        except grpc.aio.AioRpcError as error:
            raise RuntimeEnvSetupError(
                f"package {package.package.name} could not be brought to the agent at {address}: "
                f"{error.details() or error.code().name}"
            ) from None
        finally:
            await channel.close()
        prefix = runtime_packages.job_prefix(self._facts.job_id)
        await self._write_row(prefix, package.package, address)

    async def _stream(self, stub: Any, package: LocalPackage) -> None:
        call = stub.Put(timeout=limits.PACKAGE_PUT_S_MAX)
        chunk = pb.PackageChunk(
            digest=package.package.digest,
            size_bytes=package.size_bytes,
            job_id=self._facts.job_id,
        )
        try:
            with open(package.path, "rb") as file:  # noqa: ASYNC230, PTH123 - pieces of 256 KiB from the page cache
                while data := file.read(common_limits.PACKAGE_CHUNK_BYTES):
                    chunk.data = data
                    await call.write(chunk)
                    chunk = pb.PackageChunk()
            await call.done_writing()
        except asyncio.InvalidStateError:
            pass  # the agent answered early: it has the package, or says what is wrong
        await call

    async def _write_row(
        self, prefix: bytes, package: Package, address: str, *, new: bool = True
    ) -> None:
        """Adds an address; `new`: also where there is no row (what it belonged to may be gone)."""
        link = self._gcs()
        space, key = runtime_packages.NAMESPACE, prefix + package.digest
        for _ in range(limits.PACKAGE_ROW_TRIES_MAX):
            row = await link.call(link.kv.Get, gcs.KvGetRequest(namespace=space, key=key))
            if not row.found and not new:
                return
            put = gcs.KvPutRequest(
                namespace=space,
                key=key,
                value=runtime_packages.with_holder(row.value, address),
                has_if_revision=True,
                if_revision=row.revision,
            )
            if (await link.call(link.kv.Put, put)).written:
                return
        raise RuntimeEnvSetupError(
            f"the directory row of package {package.name} changed "
            f"{limits.PACKAGE_ROW_TRIES_MAX} times while it was written"
        )
