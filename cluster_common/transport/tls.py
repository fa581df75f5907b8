"""Mutual TLS between all processes of a cluster, when their environment names certificates.

    SHOAL_TLS_CERT   this process's certificate chain (PEM file), made for its address
    SHOAL_TLS_KEY    its private key (PEM file)
    SHOAL_TLS_CA     the authority that signed every certificate of the cluster (PEM file)
    SHOAL_TLS_NAME   optional: the name in all certificates, where they are not made for addresses

All three or none. Then every server asks for a certificate of that authority and every channel
shows one: who has none cannot open a connection, and what passes between machines is encrypted. The
token, where there is one, is asked for as well.
"""

from __future__ import annotations

import os
from pathlib import Path

import grpc
import msgspec

CERTIFICATE_VARIABLE = "SHOAL_TLS_CERT"
KEY_VARIABLE = "SHOAL_TLS_KEY"
AUTHORITY_VARIABLE = "SHOAL_TLS_CA"
NAME_VARIABLE = "SHOAL_TLS_NAME"

_FILES = (CERTIFICATE_VARIABLE, KEY_VARIABLE, AUTHORITY_VARIABLE)
_PEM_MARK = b"-----BEGIN "


class TlsFiles(msgspec.Struct, frozen=True):
    """The content of the three files, and the name that certificates are made for ("": theirs)."""

    certificate: bytes
    key: bytes
    authority: bytes
    name: str

    def server_credentials(self) -> grpc.ServerCredentials:
        """For a port that asks every client for a certificate."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)],
            root_certificates=self.authority,
            require_client_auth=True,
        )

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """For a channel that shows our certificate and checks the server's."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)

    def channel_options(self) -> tuple[tuple[str, str], ...]:
        """Which name the server's certificate must carry."""
        return (("grpc.ssl_target_name_override", self.name),) if self.name else ()


class _ProcessTls:
    """What the environment of this process says; read at the first question, not at import."""

    def __init__(self) -> None:
        self.files: TlsFiles | None = None
        self.known = False


_process = _ProcessTls()


def current() -> TlsFiles | None:
    """The certificates of this process; None: connections are plain.

    Raises:
        ValueError: some of the variables are missing, or a file is no PEM file; names it.
    """
    if not _process.known:
        _process.files = _from_environment()
        _process.known = True
    return _process.files


def forget() -> None:
    """The next question reads the environment again; for a forked child with another one."""
    _process.files = None
    _process.known = False


def _from_environment() -> TlsFiles | None:
    named = [name for name in _FILES if os.environ.get(name)]
    if not named:
        return None
    missing = [name for name in _FILES if name not in named]
    if missing:
        raise ValueError(
            f"{', '.join(named)} without {', '.join(missing)}: mutual TLS needs all three"
        )
    certificate, key, authority = (_pem(name) for name in _FILES)
    return TlsFiles(certificate, key, authority, os.environ.get(NAME_VARIABLE, ""))


def _pem(variable: str) -> bytes:
    path = Path(os.environ[variable])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{variable} names {path}: {error.strerror}") from error
    if _PEM_MARK not in content:
        raise ValueError(f"{variable} names {path}, which is no PEM file")
    return content
