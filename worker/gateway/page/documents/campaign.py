"""The document of a `campaign`: its objective and its graph of tasks, with how far each is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worker.gateway.page.documents.blocks import (
    Box,
    Mark,
    Section,
    drawing,
    facts,
    files,
    listing,
    prose,
    record,
    records,
    section,
    table,
    text,
    texts,
    told,
)

STATES = {"complete": "DONE", "in_progress": "ACTIVE", "blocked": "FAILED", "pending": "PENDING"}
TONES = {"complete": "green", "in_progress": "blue", "blocked": "red"}
CONFIDENCE = {"PROCEED": "green", "CONFIRM": "amber", "CLARIFY": "amber"}


def sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Write the sections of the document."""
    tasks, progress = records(document.get("tasks")), record(document.get("progress"))
    confidence = text(document.get("confidence")).rpartition(":")[2].strip(" #")
    framework, sure = text(document.get("framework")), document.get("framework_confidence")
    is_told = framework not in ("", "none") and isinstance(sure, float | int)
    yield section(
        "Objective",
        prose(document.get("objective")),
        facts(
            campaign=document.get("campaign"),
            confidence=Mark(confidence, CONFIDENCE.get(confidence, "")),
            complexity=document.get("complexity"),
            framework=f"{framework}, {sure:.0%} sure" if is_told else framework,
            idioms_enforced=document.get("idioms_enforced"),
            drafted_by=document.get("drafted_by"),
            progress=_progress(tasks, progress),
        ),
    )
    yield section("Graph", drawing("Graph of the tasks", (_box(task, progress) for task in tasks)))
    yield section(
        "Tasks",
        table(
            "Tasks",
            ("Task", "Type", "Status", "After", "Files", "Verified by", "Budget", "Part of the objective"),
            (_row(task, progress) for task in tasks),
        ),
    )
    idioms = record(document.get("idioms"))
    yield section("Idioms", listing(idioms.get("required"), "Required"), listing(idioms.get("forbidden"), "Forbidden"))
    yield section("Outside of the goal", files(document.get("outside")))
    yield section("Parts of the objective without a task", listing(document.get("unplaced")))


def _progress(tasks: list[Mapping[str, Any]], progress: Mapping[str, Any]) -> str:
    done = sum(_status(task, progress) == "complete" for task in tasks)
    return f"{done} of {len(tasks)} tasks are complete" if tasks else ""


def _status(task: Mapping[str, Any], progress: Mapping[str, Any]) -> str:
    return text(record(progress.get(text(task.get("seq")))).get("status")) or "pending"


def _box(task: Mapping[str, Any], progress: Mapping[str, Any]) -> Box:
    seq, status = text(task.get("seq")), _status(task, progress)
    return Box(
        seq,
        _before(task),
        STATES.get(status, "PENDING"),
        f"{seq} {text(task.get('slug'))}",
        f"{_kind(task)} · {status}",
    )


def _before(task: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(each for each in texts(task.get("depends")) if each != "none")


def _kind(task: Mapping[str, Any]) -> str:
    return text(task.get("type")).lower()


def _why(said: Mapping[str, Any]) -> str:
    reason, by = text(said.get("reason")), text(said.get("blocked_by"))
    return f": {reason}" if reason else f" by {by}" if by else ""


def _row(task: Mapping[str, Any], progress: Mapping[str, Any]) -> tuple[Any, ...]:
    seq, status = text(task.get("seq")), _status(task, progress)
    said = record(progress.get(seq))
    lines = record(task.get("target_lines"))
    return (
        f"{seq} {text(task.get('slug'))}",
        _kind(task),
        Mark(f"{status}{_why(said)}", TONES.get(status, "")),
        ", ".join(_before(task)),
        tuple(f"{path}:{lines[path]}" if path in lines else path for path in told(task.get("delta"))),
        task.get("verify"),
        task.get("budget"),
        ", ".join(told(task.get("sections"))),
    )
