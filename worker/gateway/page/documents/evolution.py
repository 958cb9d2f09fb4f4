"""The document of an `evolution`: the drafted plan with its reasons, and how it was drafted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from worker.gateway.page.documents.blocks import (
    Section,
    code,
    facts,
    files,
    listing,
    prose,
    record,
    records,
    section,
    table,
    text,
    told,
)


def sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Write the sections of the document."""
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
            digest_of_the_prompt=document.get("prompt"),
            digest_of_the_request=document.get("request"),
        ),
        listing(document.get("notes"), "Notes"),
        code(document.get("raw_output"), "The answer as it came", is_folded=True),
        code(document.get("stderr"), "What the drafter's command printed", is_folded=True),
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
    """Write what the finished plan made, as the next goals are told."""
    return section(
        "What came of it",
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
