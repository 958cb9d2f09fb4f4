"""The name under which the figures of a tenant and a repository are stored."""

from __future__ import annotations

from urllib.parse import quote


def series_name(tenant: str, repo: str | None) -> str:
    """Return tenant and repository, percent-encoded, with a blank between them.

    Without a repository, the name ends with the blank.
    """
    return f"{quote(tenant, safe=':/')} {quote(repo or '', safe=':/')}"
