"""Plans as they were recorded: exports in files and folders, and those that a planner writes now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.console import USAGE, Failure, failures, read_source
from worker.host.regular_files import is_file, is_folder

if TYPE_CHECKING:
    from worker.client.planner import Planner

MAX_EXPORT_BYTES = 256 * 1024 * 1024
HELP = "Plans, files of `planner export` (without --log), folders of such files; - is stdin."


def list_sources(names: Sequence[str]) -> list[str]:
    """Name the files of each folder; any other name stands for itself. Raises Failure for a folder without exports."""
    return [source for name in names for source in _sources(name)]


def _sources(name: str) -> list[str]:
    if name == "-" or not is_folder(name):
        return [name]
    try:
        found = sorted(str(each) for each in Path(name).iterdir() if each.suffix == ".json")
    except OSError as error:
        raise Failure.of("unreadable_file", f"{name}: {error.strerror or error}.", USAGE) from error
    if not found:
        raise Failure.of("no_exports", f"{name} has no files *.json, as `planner export` writes them.", USAGE)
    return found


def read_export(source: str, ask: Callable[[], Planner], tenant: str) -> bytes:
    """Read the export of a plan from its file, or from the planner that is asked; raises Failure."""
    if source == "-" or "/" in source or source.endswith((".json", ".jsonl")) or is_file(source):
        return read_source(source, MAX_EXPORT_BYTES)
    planner, pieces, size = ask(), list[bytes](), 0
    with failures():
        for piece in planner.export(planner.resolve(source, tenant)):
            pieces.append(piece)
            size += len(piece)
            if size > MAX_EXPORT_BYTES:
                detail = f"{source}: its export has more than {MAX_EXPORT_BYTES} bytes, which is the limit."
                raise Failure.of("too_large", detail, USAGE)
    return b"".join(pieces)
