"""The TLS options of all connections to Redis, for the store and for the broker.

The options are in the query of the URL, which both redis-py and kombu read. So no client can be made without them.
"""

from __future__ import annotations

import logging
import re
import ssl
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from redis.connection import parse_url

log = logging.getLogger("planner.redis")

SCHEMES = ("rediss://", "rediss+sentinel://", "rediss+cluster://")
CHECK, NAME, CA, CERTIFICATE, KEY = (
    *("ssl_cert_reqs", "ssl_check_hostname", "ssl_ca_certs"),
    *("ssl_certfile", "ssl_keyfile"),
)
KNOWN = (CHECK, NAME, CA, CERTIFICATE, KEY)
OFF = re.compile("false|no|0|f|n", re.IGNORECASE)


def is_secure(url: str) -> bool:
    """Return whether a URL of Redis requires TLS."""
    return url.startswith(SCHEMES)


def with_tls(url: str, ca: Path | None, certificate: Path | None, key: Path | None) -> str:
    """Return a URL with the options of TLS in its query, if it requires TLS; the server is verified by default.

    Raises ValueError with a sentence if the options cannot be used.
    """
    if not is_secure(url):
        return url
    parts = urlsplit(url)
    given = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if wrong := [name for name in given if name.startswith("ssl_") and name not in KNOWN]:
        raise ValueError(f"{wrong[0]} is none of {', '.join(KNOWN)}")
    if given.get(CHECK) not in (None, "required", "none"):
        raise ValueError(f"{CHECK} is `required`, or `none` to verify nothing")
    files = {CA: ca, CERTIFICATE: certificate, KEY: key}
    options = {CHECK: "required", **{name: str(path.absolute()) for name, path in files.items() if path}, **given}
    _try(options)
    return parts._replace(query=urlencode(options)).geturl()


def options(url: str) -> dict[str, Any]:
    """Return the options of TLS in a URL for redis-py; empty without TLS."""
    found = parse_url(f"rediss://localhost?{urlsplit(url).query}") if is_secure(url) else {}
    return {name: value for name, value in found.items() if name in KNOWN}


@cache
def warn(url: str) -> None:
    """Log once in a process that a server is not verified."""
    found = options(url)
    if found.get(CHECK) == "none" or found.get(NAME) is False:
        where = urlsplit(url).netloc.rpartition("@")[2]
        log.warning("certificate of Redis not verified", extra={"server": where})


def failure(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error that caused `error`, if waiting does not help; else None."""
    while error:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return error
        error = error.__cause__ or error.__context__
    return None


def _try(given: dict[str, str]) -> None:
    """Check that the files of certificates and key can be loaded. Raises ValueError with a sentence."""
    context = ssl.create_default_context()
    try:
        if CA in given:
            context.load_verify_locations(given[CA])
    except OSError as error:
        raise ValueError(f"{given[CA]} holds no certificates of authorities: {error}") from error
    if KEY in given and CERTIFICATE not in given:
        raise ValueError("a client's key needs its certificate")
    try:
        if CERTIFICATE in given:
            context.load_cert_chain(given[CERTIFICATE], given.get(KEY))
    except OSError as error:
        raise ValueError(f"{given[CERTIFICATE]} is no client's certificate with its key: {error}") from error
