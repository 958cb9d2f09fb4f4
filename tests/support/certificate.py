"""Certificates of this machine that are their own authority."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509 import (
    BasicConstraints,
    CertificateBuilder,
    DNSName,
    IPAddress,
    Name,
    NameAttribute,
    SubjectAlternativeName,
    SubjectKeyIdentifier,
    random_serial_number,
)
from cryptography.x509.oid import NameOID


def write_certificate(directory: Path) -> tuple[Path, Path]:
    """Write a certificate for localhost and 127.0.0.1 that is valid for a day, and its key; return both paths."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = Name([NameAttribute(NameOID.COMMON_NAME, "localhost")])
    made = CertificateBuilder(name, name, key.public_key(), random_serial_number(), now, now + timedelta(days=1))
    for extension in (
        SubjectAlternativeName([DNSName("localhost"), IPAddress(ip_address("127.0.0.1"))]),
        SubjectKeyIdentifier.from_public_key(key.public_key()),
        BasicConstraints(ca=True, path_length=None),
    ):
        made = made.add_extension(extension, critical=isinstance(extension, BasicConstraints))
    places = directory / "certificate.pem", directory / "certificate.key"
    places[0].write_bytes(made.sign(key, SHA256()).public_bytes(Encoding.PEM))
    places[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return places
