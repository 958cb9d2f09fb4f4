"""Names what on this machine is the planner's alone, so that no agent and no verification may reach it."""

from __future__ import annotations

from pathlib import Path

from worker import credentials
from worker.settings import Settings
from worker.status import directory


def paths(settings: Settings) -> tuple[Path, ...]:
    """Name the folders of state, of the embedded server and of kept drafts, and the files of secrets."""
    kept = (directory(settings), settings.data_dir, settings.planning_debug_dir)
    return (*(path.absolute() for path in kept if path), *credentials.files())
