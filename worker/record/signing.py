"""Signs the heads of logs with an Ed25519 key: it confirms that a log had this head and this number of lines."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from hashlib import blake2b
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tasks.base.errors import PlannerError
from tasks.record.chain import HEAD_PATTERN

FORMAT = "planner.log.signature"
VERSION = 1


class WrongKey(PlannerError):
    """A text is no Ed25519 key in PEM format that can be read."""


class WrongSignature(PlannerError):
    """A text is no signature of a log's head by this key."""


class Signature(BaseModel):
    """The signature of the head of a log; a new version may add fields."""

    model_config = ConfigDict(frozen=True, strict=True)

    format: str = Field(pattern=f"^{FORMAT}$")
    format_version: int = Field(ge=VERSION, le=VERSION)
    plan_id: str | None = Field(pattern=r"^[!-~]{1,100}$")  # of a file none is known
    lines: int = Field(ge=1)
    head: str = Field(pattern=f"^{HEAD_PATTERN}$")
    signed_at: str = Field(pattern=r"^[0-9TZ:.+-]{1,40}$")
    key_id: str
    signature: str

    def text(self) -> bytes:
        """Return the bytes that are signed: five lines, the same in every language."""
        said = (f"{FORMAT} {VERSION}", self.plan_id or "-", self.lines, self.head, self.signed_at)
        return "".join(f"{each}\n" for each in said).encode()


def new_key(path: Path) -> str:
    """Create a private key in a new file, and its public half in a file with `.pub` added. Returns the key's id.

    Raises OSError, also if one of the files exists.
    """
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption())
    public = key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)
    _create(path, private, 0o600)
    try:
        _create(public_path(path), public, 0o644)
    except OSError:
        path.unlink()
        raise
    return key_id(key.public_key())


def _create(path: Path, data: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)


def public_path(path: Path) -> Path:
    """Return the file of the public half of a key."""
    return path.with_name(f"{path.name}.pub")


def key_id(key: Ed25519PublicKey) -> str:
    """Return the id of a key: 16 hex digits of its public half."""
    return blake2b(key.public_bytes_raw(), digest_size=8).hexdigest()


def read_private(data: bytes) -> Ed25519PrivateKey:
    """Return a private key. Raises WrongKey."""
    try:
        key = pem.load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # TypeError: it has a password
        raise WrongKey("it is no private key without a password, as planner sign --new-key makes it") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise WrongKey("it is a private key, but not one of Ed25519")
    return key


def read_public(data: bytes) -> Ed25519PublicKey:
    """Return a public key, or the public half of a private one. Raises WrongKey."""
    if b"PRIVATE KEY" in data:
        return read_private(data).public_key()
    try:
        key = pem.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise WrongKey("it is no public key, as planner sign --new-key makes it") from error
    if not isinstance(key, Ed25519PublicKey):
        raise WrongKey("it is a public key, but not one of Ed25519")
    return key


def sign(key: Ed25519PrivateKey, head: str, lines: int, signed_at: str, plan_id: str | None) -> Signature:
    """Return the signature of the head of a log."""
    unsigned = Signature(
        format=FORMAT,
        format_version=VERSION,
        plan_id=plan_id,
        lines=lines,
        head=head,
        signed_at=signed_at,
        key_id=key_id(key.public_key()),
        signature="",
    )
    return unsigned.model_copy(update={"signature": b64encode(key.sign(unsigned.text())).decode()})


def read_signature(document: bytes, key: Ed25519PublicKey) -> Signature:
    """Return a signature that `key` has made. Raises WrongSignature."""
    try:
        found = Signature.model_validate_json(document)
    except ValidationError as error:
        where = "/".join(map(str, error.errors()[0]["loc"]))
        raise WrongSignature(f"it is no signature that planner sign wrote ({where or 'no JSON'})") from error
    if found.key_id != key_id(key):
        raise WrongSignature(f"it names the key {found.key_id[:64]}, and the key that was given is {key_id(key)}")
    try:
        key.verify(b64decode(found.signature, validate=True), found.text())
    except (InvalidSignature, ValueError) as error:
        raise WrongSignature("the key signed another content") from error
    return found
