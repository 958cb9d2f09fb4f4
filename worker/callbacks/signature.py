"""Signatures of callbacks as Standard Webhooks has them, version 1; pure."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256

PREFIX = "whsec_"
SECRET_BYTES = 32


def write_secret(random: bytes) -> str:
    """Write a secret as endpoints are given it."""
    return PREFIX + b64encode(random).decode()


def sign(secrets: Iterable[str], message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Make the headers of a message; each secret makes a signature, so that a receiver may know one of two."""
    content = b"%s.%d." % (message_id.encode(), timestamp) + body
    made = [
        b64encode(hmac.digest(b64decode(secret.removeprefix(PREFIX)), content, sha256)).decode() for secret in secrets
    ]
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(f"v1,{each}" for each in made),
    }
