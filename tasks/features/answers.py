"""What a step learned, for the steps that stand on it: kept when it is done, and given to those that name it.

An answer is what a controller said, so it is data from outside: sanitised and cut once, and part of no decision.
It lies in a note of the plan, which only the start of a step that names it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas import codec
from tasks.base.errors import NeedsSteps
from tasks.plan.snapshot import NOTE, Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import AFTER_END, SPEC_FIELDS, Feature, Judgement, always
from tasks.text.fields import fit, whole_lines
from tasks.text.sanitize import sanitize

MAX_ANSWER = 4096  # bytes of one answer
MAX_ANSWERS = 8192  # bytes of all that one attempt is given
LEAST_ROOM = 256  # bytes; less of an answer tells nothing
MAX_READ = 8192  # characters of an output that are looked at


def note_of(step_id: str) -> str:
    """Name the note that has the answer of a step."""
    return f"answer-{step_id}"


def keep(unit: UnitOfWork, seen: Judgement) -> None:
    """Keep what a step that is done answered, if another step will be given that."""
    step, output = seen.step, seen.outcome.output
    said = output if isinstance(output, str) else "" if output is None else codec.dumps(output).decode()
    kept, cut = _within(said, MAX_ANSWER)
    if kept.strip():
        unit.keep_note(note_of(step.step_id), {"title": step.facts["title"], "output": kept, "cut": cut})


def given_to(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """List the answers of the steps that `step` names and that are done, nearest first, MAX_ANSWERS bytes in all.

    Raises NeedsSteps where the snapshot lacks one, with what the other ready steps will ask for.
    """
    if missing := _lacking(unit, step):
        raise NeedsSteps(missing.union(*(_lacking(unit, each) for each in unit.ready.values() if each.spec)))
    found: list[dict[str, Any]] = []
    room = MAX_ANSWERS
    for step_id in step.facts["answers_from"]:
        note = unit.note(note_of(step_id))
        if note is None or room < LEAST_ROOM:  # it was skipped, or had nothing to say; or there is no room for it
            continue
        size = len(note["output"].encode())
        output, cut = (note["output"], False) if size <= room else _within(note["output"], room)
        found.append({"step_id": step_id, "title": note["title"], "output": output, "cut": cut or note["cut"]})
        room -= size
    return {"answers": found} if found else None


def _lacking(unit: UnitOfWork, step: Step) -> frozenset[str]:
    names = (note_of(step_id) for step_id in step.facts["answers_from"])
    return frozenset(NOTE + name for name in names if name not in unit.snapshot.notes)


def _within(text: str, size: int) -> tuple[str, bool]:
    """Sanitise `text` and keep its whole lines within `size` bytes; and say whether there was more."""
    clean = sanitize(text[:MAX_READ]).text
    kept = fit(clean, size, whole_lines)
    return kept, kept != clean or len(text) > MAX_READ


FEATURE = Feature(
    "answers",
    (AFTER_END.row(keep, fact="keeps_answer"), SPEC_FIELDS.row(given_to, fact="answers_from")),
    is_idle=always,
    end_fields=("keeps_answer",),
    start_fields=("keeps_answer", "answers_from"),
)
