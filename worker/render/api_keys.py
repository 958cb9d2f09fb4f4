"""Keys of the gateway, drawn for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from schemas.api_key import ApiKey
from worker.render.plan import plain


def draw_keys(keys: Sequence[ApiKey]) -> Table:
    """Draw keys, one a line."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("key", "rights", "tenant", "queues", "repositories", "rate", "expires", "for"):
        table.add_column(name, overflow="fold", no_wrap=name == "key")
    for key in keys:
        cells = (key.key_id, ", ".join(key.rights), key.tenant or "all", ", ".join(key.queues))
        rest = (
            ", ".join(key.repositories) or "all",
            key.rate or "",
            (key.expires_at or "never")[:16],
            key.subject or "",
        )
        table.add_row(*map(plain, (*cells, *rest)))
    return table
