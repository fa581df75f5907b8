"""KvService."""

from __future__ import annotations

from cluster_api.v1 import gcs_pb2 as g
from gcs_service.shell.kv_host import KvHost
from gcs_service.shell.service_binding import unless_refused


class KvService:
    """Each call is one step on the executor `kv`."""

    def __init__(self, host: KvHost) -> None:
        self._host = host
        self._table = host.table

    async def put(self, request: g.KvPutRequest) -> g.KvPutResponse:
        """Conditional put; says who won."""
        outcome = unless_refused(
            await self._host.ask(
                lambda at: self._table.put(
                    request.namespace,
                    request.key,
                    request.value,
                    if_absent=request.if_absent,
                    if_revision=request.if_revision if request.has_if_revision else None,
                    ttl_ms=request.ttl_ms,
                    at=at,
                )
            )
        )
        return g.KvPutResponse(
            written=outcome.written, revision=outcome.revision, added=outcome.added
        )

    async def get(self, request: g.KvGetRequest) -> g.KvGetResponse:
        """One value."""
        row = await self._host.ask(lambda at: self._table.get(request.namespace, request.key, at))
        if row is None:
            return g.KvGetResponse(found=False)
        return g.KvGetResponse(found=True, value=row.value, revision=row.revision)

    async def multi_get(self, request: g.KvMultiGetRequest) -> g.KvMultiGetResponse:
        """Those of the keys that exist."""
        rows = await self._host.ask(
            lambda at: [(key, self._table.get(request.namespace, key, at)) for key in request.keys]
        )
        entries = [
            g.KvEntry(key=key, value=row.value, revision=row.revision)
            for key, row in rows
            if row is not None
        ]
        return g.KvMultiGetResponse(entries=entries)

    async def delete(self, request: g.KvDeleteRequest) -> g.KvDeleteResponse:
        """One key, or all with a prefix."""
        deleted = await self._host.ask(
            lambda at: self._table.delete(
                request.namespace, request.key, prefix=request.prefix, at=at
            )
        )
        return g.KvDeleteResponse(deleted=deleted)

    async def keys(self, request: g.KvKeysRequest) -> g.KvKeysResponse:
        """Keys with a prefix, in order."""
        keys, truncated = await self._host.ask(
            lambda at: self._table.keys(request.namespace, request.prefix, request.limit, at)
        )
        return g.KvKeysResponse(keys=keys, truncated=truncated)

    async def exists(self, request: g.KvExistsRequest) -> g.KvExistsResponse:
        """Whether a key has a value."""
        row = await self._host.ask(lambda at: self._table.get(request.namespace, request.key, at))
        return g.KvExistsResponse(exists=row is not None)
