"""The changes of a plan on a page: the diff of each file of each step, truncated."""

from __future__ import annotations

from typing import NamedTuple

from schemas.result import StepResult
from tasks.text.diffs import read_diff
from worker.render.result_reading import ReadResult

MAX_PAGE_BYTES = 400_000  # of all diffs on a page
MAX_FILE_BYTES = 40_000  # of the diff of a file
MOST_FILES = 50  # of a step
MOST_CHANGES = 50  # steps, as the template shows them


class ShownFile(NamedTuple):
    """The diff of a file as text, without git's head; `left_out` bytes are cut."""

    path: str
    kind: str
    added: int
    removed: int
    text: str
    left_out: int


class ShownChange(NamedTuple):
    """A step that landed a change, and the diffs of its files."""

    step: StepResult
    files: tuple[ShownFile, ...]
    more_files: int


def shown_changes(found: ReadResult) -> list[ShownChange]:
    """Return the diffs of a result, truncated to the limits of a page."""
    room, shown = MAX_PAGE_BYTES, []
    for step in found.result.steps[:MOST_CHANGES]:
        diff = found.diffs.get((step.step_id, step.attempt), b"")
        parts, files = read_diff(diff), []
        for part in parts[:MOST_FILES]:
            start = diff.find(b"\n@@", part.start, part.end) + 1
            body = diff[start : part.end] if start else b""
            text = body[: max(0, min(room, MAX_FILE_BYTES))]
            room -= len(text)
            left_out = len(body) - len(text)
            lines = (part.added, part.removed, text.decode(errors="replace"), left_out)
            files.append(ShownFile(part.path, part.kind, *lines))
        shown.append(ShownChange(step, tuple(files), len(parts) - len(files)))
    return shown
