"""Draws dead entries for terminals and scripts; characters that could control a terminal are shown as escapes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from schemas.times import rfc3339
from worker.render.plan import plain, span
from worker.store.dead import Dead

SHOWN_CHARS = 2000


def overview(causes: Counter[str], shown: Sequence[Dead], forgotten: int) -> RenderableType:
    """Draw the number of dead entries for each cause, the `shown` entries, and how many older ones were removed."""
    counts = Table(box=None, pad_edge=False, header_style="dim")
    counts.add_column("count", justify="right")
    counts.add_column("cause", no_wrap=True)
    for code, count in causes.most_common():
        counts.add_row(f"{count:,}", plain(code))
    parts: list[RenderableType] = [counts, ""]
    if shown:
        parts.append(_entries(shown))
    if forgotten:
        parts.append(
            Text(f"{forgotten:,} older ones gave way to these (PLANNER_MAX_DEAD, PLANNER_MAX_DEAD_SHARE).", "dim")
        )
    return Group(*parts)


def _entries(shown: Sequence[Dead]) -> Table:
    table = Table(box=None, pad_edge=False, expand=True, header_style="dim")
    for name in ("entry", "age", "cause", "from"):
        table.add_column(name, no_wrap=True, justify="right" if name == "age" else "left")
    table.add_column("what", ratio=1, no_wrap=True, overflow="ellipsis")
    now = int(time.time())
    for dead in shown:
        detail = plain(dead.problem.get("detail", ""))
        again = f"replayed {dead.replays}x: " if dead.replays else ""
        stream = plain(dead.origin.rpartition(":")[2])
        table.add_row(
            dead.name, span(now - dead.millis // 1000), Text(plain(dead.code)), Text(stream), Text(again + detail)
        )
    return table


def portrait(dead: Dead, *, full: bool = False) -> RenderableType:
    """Draw one dead entry with all its stored data; its text is truncated unless `full`."""
    return Group(*(Text(line) for line in _lines(dead, full)))


def _lines(dead: Dead, full: bool) -> Iterator[str]:
    yield f"{dead.name}  {plain(dead.code)}"
    yield plain(dead.problem.get("detail", "Its cause cannot be read."))
    errors = dead.problem.get("errors")
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, dict):
            yield plain(f"  {error.get('pointer') or '/'}  {error.get('message')} ({error.get('code')})")
    yield plain(f"from {dead.origin or '?'}, entry {dead.source or '?'}; dead-lettered {rfc3339(dead.millis)}")
    if dead.replays:
        yield f"replayed {dead.replays} times before"
    if why := dead.obstacle():
        yield f"cannot be replayed: {plain(why)}"
    for name, value in dead.beside.items():
        yield f"{escape(name)}: {escape(value)}"
    yield ""
    kept = "" if dead.whole else f" of {dead.size:,}"
    yield f"data, {len(dead.data):,}{kept} bytes:"
    text = escape(dead.data, "\n")
    yield from (f"  {line}" for line in (text if full else text[:SHOWN_CHARS]).split("\n"))
    if not full and len(text) > SHOWN_CHARS:
        yield f"... {len(text) - SHOWN_CHARS:,} more (--full)"


def escape(raw: bytes, keep: str = "") -> str:
    """Show bytes as text: escapes for all that is unprintable and not in `keep`."""
    text = raw.decode(errors="backslashreplace")
    return "".join(
        one if one.isprintable() or one in keep else one.encode("unicode_escape").decode("ascii") for one in text
    )
