"""Recorded plans: exports in files and folders, and those that a planner writes now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from worker.cli.console import FAILED, USAGE, Failure, failures, open_planner, read_source, refused
from worker.host.regular_files import is_file, is_folder

if TYPE_CHECKING:
    from tasks.record.recorded_plan import RecordedPlan
    from worker.client.planner import Planner
    from worker.store.plan_lists import PlanFilter

MAX_EXPORT_BYTES = 256 * 1024 * 1024
HELP = "Plans, files of `planner export` (without --log), folders of such files; - is stdin."


def read_recordings(
    names: Sequence[str], tenant: str, wanted: PlanFilter | None = None
) -> Iterator[tuple[str, RecordedPlan | str]]:
    """Yield the named plans, or the plans of a planner that match `wanted`, one at a time, each after its name.

    If one of several cannot be read, a sentence with the reason takes its place. Raises Failure if no planner answers,
    if the only given name is unknown, and for a folder without exports.
    """
    from tasks.record.recorded_plan import NoExport, RecordedPlan

    with ExitStack() as stack:
        ask = cache(lambda: stack.enter_context(open_planner()))
        sources = [source for name in names for source in _sources(name)]
        sources += [plan.plan_id for plan in ask().plans(wanted)] if wanted else []
        for source in sources:
            found: RecordedPlan | str
            try:
                found = RecordedPlan.read(_read_export(source, ask, tenant))
            except Failure as failure:
                if failure.exit_code == FAILED or (len(sources) == 1 and not wanted):
                    raise
                found = failure.problem.detail
            except NoExport as error:
                found = f"{error}."
            yield source, found


def _sources(name: str) -> list[str]:
    if name == "-" or not is_folder(name):
        return [name]
    with refused("unreadable_file", f"{name}: ", ".", by=OSError):
        found = sorted(str(each) for each in Path(name).iterdir() if each.suffix == ".json")
    if not found:
        raise Failure.of("no_exports", f"{name} has no files *.json, as `planner export` writes them.", USAGE)
    return found


def _read_export(source: str, ask: Callable[[], Planner], tenant: str) -> bytes:
    """Return the export of a plan from its file, or from the planner. Raises Failure."""
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
