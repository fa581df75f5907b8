"""Packages of runtime environments: how they are named, and where it is written who has them.

A package is one file (a zip archive, a wheel) named by the SHA-256 of its bytes. Agents keep them;
the directory in the GCS's key-value store says at which agents each one is. A row belongs to a job
or to a detached actor, and goes with it.
"""

from __future__ import annotations

import re

import msgspec

NAMESPACE = "shoal_runtime_packages"
"""Of the key-value store. Values: addresses of agents, one a line, the newest last."""

DIGEST_BYTES = 32
HOLDERS_MAX = 16
"""Addresses in one row: enough to spread the load of a large cluster."""

RUNTIME_ENV_FAILED = "runtime environment: "
"""Begins every message of an agent that cannot make an environment."""

_SCHEME = "package://"
_URI = re.compile(r"package://([0-9a-f]{64})/([^/\0]{1,255})")


class Package(msgspec.Struct, frozen=True):
    """One package as an environment names it. `name`: of the file, its suffix says what it is."""

    digest: bytes
    name: str

    @property
    def uri(self) -> str:
        """`package://<sha256>/<name>`."""
        return f"{_SCHEME}{self.digest.hex()}/{self.name}"

    @property
    def is_wheel(self) -> bool:
        """Whether it is installed; others are unpacked."""
        return self.name.endswith(".whl")


def is_uri(text: str) -> bool:
    """Whether this names a package (right or wrong) rather than a path."""
    return text.startswith(_SCHEME)


def parse_uri(text: str) -> Package:
    """The package that a URI names.

    Raises:
        ValueError: it is not one.
    """
    found = _URI.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not package://<sha256 in hex>/<file name>")
    return Package(bytes.fromhex(found[1]), found[2])


def job_prefix(job_id: bytes) -> bytes:
    """Beginning of the keys of a job's rows."""
    return b"j" + job_id


def actor_prefix(actor_id: bytes) -> bytes:
    """Beginning of the keys of a detached actor's rows."""
    return b"a" + actor_id


def with_holder(value: bytes, address: str) -> bytes:
    """The row with one more address; the oldest goes when there are too many."""
    known = [line for line in value.decode().splitlines() if line != address]
    return "\n".join([*known, address][-HOLDERS_MAX:]).encode()


def holders(value: bytes) -> list[str]:
    """Addresses of a row."""
    return value.decode().splitlines()
