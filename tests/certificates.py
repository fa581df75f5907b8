"""Throw-away authorities and certificates for tests of mutual TLS."""

from __future__ import annotations

import datetime as dt
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = dt.timedelta(days=1)


class Authority:
    """Signs certificates for 127.0.0.1 and localhost."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        self.certificate = self._sign(self._name, self._key.public_key(), is_authority=True)

    def write(self, folder: Path) -> dict[str, str]:
        """Files for one process, as the variables that name them."""
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(_name("node"), key.public_key(), is_authority=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        contents = {
            "SHOAL_TLS_CERT": _pem(certificate),
            "SHOAL_TLS_KEY": private,
            "SHOAL_TLS_CA": _pem(self.certificate),
        }
        variables = {}
        for variable, content in contents.items():
            path = folder / f"{variable}.pem"
            path.write_bytes(content)
            variables[variable] = str(path)
        return variables

    def _sign(self, subject, public_key, *, is_authority):
        now = dt.datetime.now(dt.UTC)
        names = [
            x509.IPAddress(ipaddress.ip_address("127.0.0.1")),
            x509.DNSName("localhost"),
        ]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
