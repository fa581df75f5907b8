"""Packages on this node's disk: complete ones only, named by their content."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncIterable, Callable
from pathlib import Path

from cluster_api.v1 import agent_pb2 as a
from cluster_common import limits as common_limits


class PackageError(RuntimeError):
    """A package did not come whole; the message says how."""


class PackageStore:
    """Files below one folder. Reads and writes are small pieces on the loop's thread."""

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder

    def path(self, digest: bytes) -> Path:
        """Where a package is, or would be."""
        return self._folder() / digest.hex()

    def has(self, digest: bytes) -> bool:
        """Whether it is here, whole."""
        return self.path(digest).exists()

    def size_bytes(self, digest: bytes) -> int:
        """Of a package that is here."""
        return self.path(digest).stat().st_size

    def remove(self, digest: bytes) -> None:
        """Deletes it."""
        self.path(digest).unlink(missing_ok=True)

    async def take(self, digest: bytes, chunks: AsyncIterable[a.PackageChunk]) -> None:
        """Writes what comes; it is here when it came whole.

        Raises:
            PackageError: too large, cut off, or not what its name says.
        """
        self._folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self.path(digest).with_suffix(f".{os.urandom(4).hex()}")
        try:
            await self._write(draft, digest, chunks)
            draft.replace(self.path(digest))
        finally:
            draft.unlink(missing_ok=True)

    async def _write(
        self, draft: Path, digest: bytes, chunks: AsyncIterable[a.PackageChunk]
    ) -> None:
        found = hashlib.sha256()
        size = 0
        free = shutil.disk_usage(self._folder()).free
        with draft.open("xb") as file:
            async for chunk in chunks:
                size += len(chunk.data)
                stated = max(size, chunk.size_bytes)
                if stated > common_limits.PACKAGE_BYTES_MAX:
                    most = common_limits.PACKAGE_BYTES_MAX
                    raise PackageError(f"it has {stated} bytes or more; at most {most} may be sent")
                if stated > free:
                    raise PackageError(f"it has {stated} bytes, the disk has {free} left")
                found.update(chunk.data)
                file.write(chunk.data)
        if found.digest() != digest:
            raise PackageError(f"{size} bytes came, and they are not package {digest.hex()[:12]}")
