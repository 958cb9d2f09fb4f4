"""The documents of all kinds of goal except `reviewed_plan`, which has its own module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worker.gateway.page.documents.blocks import (
    Box,
    Mark,
    Section,
    code,
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
PRIORITIES = {"urgent": "red", "high": "red", "medium": "amber", "low": ""}
RISKS = {"high": "red", "medium": "amber", "low": "green"}
WHY = {
    "outside": "the goal allows none of its files",
    "protected": "all that it is about is protected",
    "failed": "it failed too often in a row",
}


def task_sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Yield the sections of a `task`: the origin of its steps, its assumptions and constraints, and draft changes."""
    failed = record(document.get("drafting")).get("failed")
    yield section(
        "How the steps came about",
        prose(document.get("summary")),
        facts(
            kind_of_work=document.get("type"),
            language=document.get("language"),
            drafted_by=document.get("drafter"),
            questions_to_a_person=document.get("questions"),
        ),
        prose(f"The draft was of no use, so a template was taken: {failed}") if failed else None,
    )
    yield section("Taken for granted", listing(document.get("assumptions")))
    yield section("Constraints", listing(document.get("constraints")))
    yield section("Changed in the draft without asking", listing(document.get("notes")))


def campaign_sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Yield the objective of a `campaign`, and its graph of tasks with their progress."""
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


def gap_report_sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Yield the sections of a `gap_report`."""
    gap = record(document.get("gap"))
    priority, risk = text(gap.get("priority")), text(document.get("estimated_risk"))
    left = document.get("gaps_left")
    yield section(
        "Gap",
        prose(gap.get("description")),
        facts(
            category=gap.get("category"),
            priority=Mark(priority, PRIORITIES.get(priority, "")),
            its_tool_found=gap.get("tally"),
            version=gap.get("roadmap_version"),
            iteration=document.get("iteration_id"),
            risk_of_the_change=Mark(risk, RISKS.get(risk, "")),
            gaps_left=f"{text(left)} more in the report" if left else "",
        ),
        code(gap.get("evidence"), "Evidence"),
    )
    yield section(
        "Actions",
        table(
            "What is done",
            ("What", "How", "Files"),
            (
                (each.get("description"), text(each.get("action_type")), told(each.get("target_files")))
                for each in records(document.get("actions"))
            ),
        ),
    )
    yield section("Accepted when", listing(document.get("acceptance_criteria")))
    yield section(
        "Outside of the goal",
        prose("These files belong to the actions, but the goal does not allow them. No step touches them.")
        if document.get("outside")
        else None,
        files(document.get("outside")),
    )
    yield section(
        "Passed over",
        table(
            "Gaps that came before this one",
            ("Gap", "Category", "Why", "Files that the goal lacks"),
            (
                (
                    each.get("description"),
                    each.get("category"),
                    WHY.get(text(each.get("reason")), each.get("reason")),
                    told(each.get("files")),
                )
                for each in records(document.get("passed_over"))
            ),
        ),
    )


def evolution_sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Yield the sections of an `evolution`."""
    plan = record(document.get("plan"))
    yield section(
        "Plan",
        prose(plan.get("summary")) or prose("The plan is being drafted."),
        prose(plan.get("rationale"), "Why"),
        listing(plan.get("focus_metrics"), "Metrics that it is about"),
        listing(plan.get("guardrails"), "Guardrails"),
        listing(plan.get("risks"), "Risks"),
        listing(plan.get("validation"), "Validated by"),
    )
    for number, step in enumerate(records(plan.get("steps")), 1):
        yield _step(number, step)
    yield section(
        "Handing over", listing(plan.get("handoff_notes"), "Notes"), prose(plan.get("fallback_plan"), "If it fails")
    )
    yield _card(record(document.get("commit_card")))
    seconds = document.get("duration_seconds")
    yield section(
        "How it was drafted",
        facts(
            drafter=document.get("drafter"),
            command=" ".join(told(document.get("command"))),
            answers_asked_for=document.get("attempts"),
            took=f"{seconds:,.1f} s" if isinstance(seconds, float | int) else "",
            read_as=document.get("validation_mode"),
            digest_of_the_prompt=document.get("prompt_digest"),
            digest_of_the_request=document.get("request"),
        ),
        listing(document.get("notes"), "Notes"),
        code(document.get("prompt"), "The prompt", is_folded=True),
        code(document.get("raw_output"), "The answer as it came", is_folded=True),
        code(document.get("stderr"), "Output of the drafter's command", is_folded=True),
    )


def _step(number: int, step: Mapping[str, Any]) -> Section | None:
    return section(
        f"{number}. {text(step.get('title')) or text(step.get('step_id'))}",
        prose(step.get("intent")),
        listing(step.get("actions"), "Actions"),
        files(step.get("files"), "Files"),
        listing(step.get("validation"), "Validated by"),
        listing(step.get("risks"), "Risks"),
        facts(
            step=step.get("step_id"),
            after=", ".join(told(step.get("dependencies"))),
            references=", ".join(told(step.get("references"))),
        ),
        is_nested=True,
    )


def _card(card: Mapping[str, Any]) -> Section | None:
    """Return the section with the result of an `evolution`, from the card that later goals receive."""
    return section(
        "Result",
        prose(card.get("change_summary")),
        facts(commit=card.get("commit_hash"), subject=card.get("subject"), made_from=card.get("parent_commit_hash")),
        listing(card.get("highlights"), "Highlights"),
        files(card.get("key_files"), "Files"),
        prose(card.get("evaluation_summary"), "Evaluation"),
        table(
            "Metrics",
            ("Metric", "Value", "Unit", "Better", "What it says"),
            (
                (
                    each.get("name"),
                    each.get("value"),
                    each.get("unit"),
                    {True: "higher", False: "lower"}.get(each.get("higher_is_better")),  # type: ignore[arg-type]
                    each.get("summary"),
                )
                for each in records(card.get("metrics"))
            ),
        ),
    )
