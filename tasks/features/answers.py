"""Answers of steps for later steps: kept when a step is done, and given to the steps that name it.

An answer comes from a controller, so it is data from outside. It is sanitized and truncated once, and no decision
depends on it. A note of the plan stores it, and only the start of a step that names it reads the note.
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
MAX_ANSWERS = 8192  # bytes of all answers that one attempt gets
LEAST_ROOM = 256  # bytes; a shorter part of an answer is of no use
MAX_READ = 8192  # characters of an output that are read


def note_of(step_id: str) -> str:
    """Return the name of the note that stores the answer of a step."""
    return f"answer-{step_id}"


def keep(unit: UnitOfWork, seen: Judgement) -> None:
    """Store the answer of a step that is done, for the steps that name it."""
    step, output = seen.step, seen.outcome.output
    said = output if isinstance(output, str) else "" if output is None else codec.dumps(output).decode()
    kept, cut = _within(said, MAX_ANSWER)
    if kept.strip():
        unit.keep_note(note_of(step.step_id), {"title": step.facts["title"], "output": kept, "cut": cut})


def given_to(unit: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """Return the answers of the done steps that `step` names, nearest first, at most MAX_ANSWERS bytes in all.

    Raises NeedsSteps if the snapshot lacks an answer. The error also names the answers that other ready steps will
    need.
    """
    if missing := _lacking(unit, step):
        raise NeedsSteps(missing.union(*(_lacking(unit, each) for each in unit.ready.values() if each.spec)))
    found: list[dict[str, Any]] = []
    room = MAX_ANSWERS
    for step_id in step.facts["answers_from"]:
        note = unit.note(note_of(step_id))
        if note is None or room < LEAST_ROOM:  # the step was skipped or had no answer, or there is no capacity
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
    """Sanitize `text` and keep its whole lines within `size` bytes; also return whether anything was left out."""
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
