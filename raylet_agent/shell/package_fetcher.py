"""Brings packages from agents that have them, which the directory in the GCS names."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import grpc
from grpc import aio

from cluster_api.v1 import agent_pb2 as a
from cluster_api.v1 import agent_pb2_grpc, gcs_pb2_grpc
from cluster_api.v1 import gcs_pb2 as g
from cluster_common import runtime_packages
from cluster_common.runtime_packages import Package
from cluster_common.transport.endpoints import make_channel
from cluster_common.transport.logs import get_logger
from raylet_agent import limits
from raylet_agent.core.facts import NodeFacts
from raylet_agent.shell.package_store import PackageError, PackageStore

log = get_logger()


class PackageFetcher:
    """At most one stream for each package, and a bounded number of all.

    Args:
        facts: where the GCS is, and our own address for the directory.
        store: where packages go.
        fetched: told of each that came.
    """

    def __init__(
        self, facts: NodeFacts, store: PackageStore, fetched: Callable[[bytes], None]
    ) -> None:
        self._facts = facts
        self._store = store
        self._fetched = fetched
        self._turns = asyncio.Semaphore(limits.PACKAGE_STREAMS_MAX)
        self._gcs: aio.Channel | None = None

    async def close(self) -> None:
        """No more questions."""
        if self._gcs is not None:
            await self._gcs.close()

    async def fetch(self, package: Package, prefixes: Sequence[bytes]) -> None:
        """Brings one package.

        Args:
            package: which.
            prefixes: of the keys of the rows that may name it.

        Raises:
            PackageError: nobody could send it.
        """
        async with self._turns:
            problems: dict[str, str] = {}
            delay_s = limits.PACKAGE_ROUND_DELAY_S
            for number in range(limits.PACKAGE_ROUNDS_MAX):
                if self._store.has(package.digest):
                    return  # a driver brought it here meanwhile
                for address in await self._addresses(package, prefixes):
                    problem = await self._fetch_from(address, package)
                    if problem is None:
                        await self._tell(package, prefixes[0])
                        return
                    problems[address] = problem
                if not problems and number + 1 >= limits.PACKAGE_ROUNDS_UNNAMED_MAX:
                    break
                await asyncio.sleep(delay_s)
                delay_s = min(delay_s * 2, limits.PACKAGE_ROUND_DELAY_S_MAX)
        where = "; ".join(f"{address}: {problem}" for address, problem in problems.items())
        raise PackageError(
            f"package {package.name} ({package.digest.hex()[:12]}) could not be fetched: "
            + (where or "the directory of packages names nobody who has it")
        )

    async def _fetch_from(self, address: str, package: Package) -> str | None:
        """What went wrong, None when it is here."""
        channel = make_channel(address)
        try:
            stub = agent_pb2_grpc.PackageServiceStub(channel)
            call: Any = stub.Get(
                a.GetPackageRequest(digest=package.digest), timeout=limits.PACKAGE_CALL_S_MAX
            )
            await self._store.take(package.digest, _chunks(call))
        except aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
        except (PackageError, OSError) as error:
            return str(error)
        finally:
            await channel.close()
        self._fetched(package.digest)
        return None

    def _kv(self) -> Any:
        if self._gcs is None:
            self._gcs = make_channel(self._facts.gcs_address)
        return gcs_pb2_grpc.KvServiceStub(self._gcs)

    async def _addresses(self, package: Package, prefixes: Sequence[bytes]) -> list[str]:
        request = g.KvMultiGetRequest(
            namespace=runtime_packages.NAMESPACE,
            keys=[prefix + package.digest for prefix in prefixes],
        )
        try:
            answer = await self._kv().MultiGet(request, timeout=limits.PACKAGE_DIRECTORY_S_MAX)
        except grpc.RpcError as error:
            log.warning("package_directory_unreachable", reason=str(error))
            return []
        named = {
            address: None
            for entry in answer.entries
            for address in runtime_packages.holders(entry.value)
            if address != self._facts.address
        }
        return random.sample(list(named), len(named))

    async def _tell(self, package: Package, prefix: bytes) -> None:
        """Others may fetch it here. A lost race or a GCS that is away costs nobody anything."""
        space, key = runtime_packages.NAMESPACE, prefix + package.digest
        try:
            row = await self._kv().Get(
                g.KvGetRequest(namespace=space, key=key), timeout=limits.PACKAGE_DIRECTORY_S_MAX
            )
            known = runtime_packages.holders(row.value)
            if not row.found or len(known) >= runtime_packages.HOLDERS_MAX:
                return
            put = g.KvPutRequest(
                namespace=space,
                key=key,
                value=runtime_packages.with_holder(row.value, self._facts.address),
                has_if_revision=True,
                if_revision=row.revision,
            )
            await self._kv().Put(put, timeout=limits.PACKAGE_DIRECTORY_S_MAX)
        except grpc.RpcError as error:
            log.info("package_directory_not_told", reason=str(error))


async def _chunks(call: Any) -> AsyncIterator[a.PackageChunk]:
    async for chunk in call:
        yield chunk
