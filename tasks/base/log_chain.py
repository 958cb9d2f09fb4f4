"""The hash chain of a plan's log: each line contains the digest of the line before it.

The plan stores the digest of its last line.
"""

from __future__ import annotations

from binascii import b2a_base64
from hashlib import blake2b

from schemas.stored import LogHead

DIGEST_BYTES = 24  # 32 characters of base64
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def begin_line(before: LogHead, version: int, now: int, code: str) -> bytes:
    """Return the start of a log line, an open JSON object; it names the code version if that differs from `before`."""
    line = f'{{"version":{version},"now":{now}'
    if before.lines:
        line += f',"prev":"{before.head}"'
    if code != before.by:
        line += f',"by":"{code}"'
    return line.encode()


def digest_line(line: bytes) -> str:
    """Return the digest of a line as it is stored: BLAKE2b of 24 bytes, as base64url without padding."""
    digest = blake2b(line, digest_size=DIGEST_BYTES).digest()
    return b2a_base64(digest, newline=False).translate(_URL_SAFE).decode()
