"""`planner demo`: a real bug in a real repository, fixed by a small fleet under the planner's rule, in seconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def run(kind: str, *, as_json: bool, keep: bool, console: Console, svg: Path | None = None) -> int:
    """Play the demo; returns 0 only if the plan completed, the other goal was rejected and the tests pass.

    `as_json` prints one JSON object and nothing else, `keep` leaves the directory, `svg` draws the end into a file.
    """
    from worker.demo.theatre import play  # here, so that the patcher starts without Celery, Redis and rich

    return play(kind, as_json=as_json, keep=keep, console=console, svg=svg)
