"""The name under which the figures of a tenant and a repository are stored."""

from __future__ import annotations

from urllib.parse import quote


def series_name(tenant: str, repo: str | None) -> str:
    """Write a tenant and a repository as fields have them: percent-encoded, a blank between; without one it is ""."""
    return f"{quote(tenant, safe=':/')} {quote(repo or '', safe=':/')}"
