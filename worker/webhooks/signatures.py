"""Checks whether a delivery was signed with one of our secrets: over its raw bytes, compared in constant time."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Iterable, Mapping

from worker.webhooks.sources_file import Scheme

TOLERANCE_S = 300  # maximum difference of a signed time from ours
WHSEC = "whsec_"  # before the secrets of Standard Webhooks, which are base64
MOST_SIGNATURES = 16  # of one delivery that are compared
MOST_DIGITS = 12  # of a time in seconds

Headers = Mapping[str, str]  # by their names in lower case


def is_signed(scheme: Scheme, headers: Headers, raw: bytes, secrets: Iterable[str], now_s: float) -> bool:
    """Return whether one of `secrets` signed the body `raw`, by the headers that `scheme` uses."""
    known = tuple(secrets)
    if scheme is Scheme.GITHUB:
        return _by_github(headers, raw, known)
    if scheme is Scheme.GITLAB and "webhook-signature" not in headers:
        return _by_token(headers, known)
    return _by_standard(headers, raw, known, now_s)


def _by_github(headers: Headers, raw: bytes, secrets: tuple[str, ...]) -> bool:
    shown = headers.get("x-hub-signature-256", "")
    made = ["sha256=" + hmac.new(secret.encode(), raw, "sha256").hexdigest() for secret in secrets]
    return _is_one_of([shown], made)


def _by_token(headers: Headers, secrets: tuple[str, ...]) -> bool:
    """Return whether the header has one of our secrets as GitLab's token; a signing secret never counts as a token."""
    return _is_one_of([headers.get("x-gitlab-token", "")], [each for each in secrets if not each.startswith(WHSEC)])


def _by_standard(headers: Headers, raw: bytes, secrets: tuple[str, ...], now_s: float) -> bool:
    """Return whether a delivery has a recent and valid signature of Standard Webhooks; it may have several."""
    delivery, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not delivery or not (timestamp.isascii() and timestamp.isdigit() and len(timestamp) <= MOST_DIGITS):
        return False
    if abs(now_s - int(timestamp)) > TOLERANCE_S:
        return False
    signed = b".".join((_bytes(delivery), timestamp.encode(), raw))
    keys = (key for secret in secrets if (key := _key(secret)))
    made = [b64encode(hmac.digest(key, signed, "sha256")).decode() for key in keys]
    shown = headers.get("webhook-signature", "").split(" ")[:MOST_SIGNATURES]
    return _is_one_of([each.removeprefix("v1,") for each in shown if each.startswith("v1,")], made)


def _key(secret: str) -> bytes:
    """Return the key in a secret of Standard Webhooks; empty if the secret is no base64."""
    try:
        return b64decode(secret.removeprefix(WHSEC), validate=True)
    except (NoBase64, ValueError):
        return b""


def _is_one_of(shown: Iterable[str], made: Iterable[str]) -> bool:
    """Return whether two texts are equal; all pairs are compared, so that the time reveals nothing."""
    wanted = [_bytes(each) for each in made]
    return True in [hmac.compare_digest(_bytes(each), one) for each in shown if each for one in wanted]


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
