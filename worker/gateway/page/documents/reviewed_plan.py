"""The document of a `reviewed_plan`: the plan, the gates with their findings, the waves, and the result of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from worker.gateway.page.documents.blocks import (
    Box,
    Drawing,
    Mark,
    Section,
    code,
    drawing,
    facts,
    files,
    listing,
    number,
    prose,
    record,
    records,
    section,
    table,
    text,
    texts,
    told,
)

Record = Mapping[str, Any]

VERDICTS = {"PASS": "green", "ACCEPTED": "amber", "SKIPPED": "", "FAIL": "red", "TODO": ""}
SEVERITIES = {"MUST": "red", "SHOULD": "amber", "COULD": ""}
OUTCOMES = {
    "DONE": "green",
    "SATISFIED": "green",
    "COMPLETED": "green",
    "PARTIALLY_SATISFIED": "amber",
    "DELEGATED": "blue",
    "FAILED": "red",
    "NOT_SATISFIED": "red",
    "BLOCKED": "red",
    "ABORTED": "red",
}
STATES = {"DONE": "DONE", "SATISFIED": "DONE", "FAILED": "FAILED", "NOT_SATISFIED": "FAILED", "SKIPPED": "SKIPPED"}
REASONS = (  # title, label, the list of the planning context, and its columns with their fields
    ("Decisions", "Decisions", "decision_log", {"Id": "id", "Decision": "decision", "Why": "reasoning_chain"}),
    (
        "Turned down",
        "Alternatives that were turned down",
        "rejected_alternatives",
        {"Id": "id", "Alternative": "alternative", "Why not": "rejection_reason", "By": "decision_ref"},
    ),
    (
        "Constraints",
        "Constraints",
        "constraints",
        {"Id": "id", "Type": "type", "What": "description", "Whose": "source"},
    ),
    (
        "Risks",
        "Risks",
        "known_risks",
        {"Id": "id", "Risk": "risk", "Response": "mitigation", "Where": "anchor"},
    ),
)


def sections(document: dict[str, Any]) -> Iterator[Section | None]:
    """Yield the sections of the document."""
    plan, outcomes, report = (record(document.get(name)) for name in ("plan", "outcomes", "report"))
    overview, frozen = record(plan.get("overview")), text(plan.get("frozen_at"))
    milestones = records(plan.get("milestones"))
    status = text(report.get("status"))
    yield section(
        text(overview.get("title")) or "Plan",
        prose(overview.get("problem"), "Problem"),
        prose(overview.get("approach"), "Approach"),
        facts(
            result=Mark(status.lower(), OUTCOMES.get(status, "")),
            frozen=f"since {frozen[:19].replace('T', ' ')} UTC: nothing of it changes any more"
            if frozen
            else "not yet",
        ),
        prose(report.get("summary"), "Plan against outcome"),
    )
    yield section("Gates", _gates(document))
    for phase, each in record(document.get("qr")).items():
        yield _open_gate(text(phase), record(each))
    yield section("Waves", _drawing(plan, milestones, outcomes), _waves(plan))
    yield section("Milestones", _became(milestones, outcomes, report))
    for each in milestones:
        yield _milestone(each, record(outcomes.get(text(each.get("id")))))
    yield from _reasons(record(plan.get("planning_context")))
    yield _knowledge(record(plan.get("invisible_knowledge")))
    yield _context(record(document.get("context")))


def _gates(document: Record) -> Any:
    return table(
        "Verdicts of the gates, the first review first",
        ("Gate", "Review", "Verdict", "Items", "What blocked it", "Why"),
        (
            (
                each.get("phase"),
                each.get("iteration"),
                _verdict(each),
                _counts(record(each.get("counts"))),
                "; ".join(told(each.get("findings")) or told(each.get("blocking"))),
                text(each.get("reason"))
                or (f"the reviewer's verdict was {each.get('claimed')}" if each.get("contradicted") else ""),
            )
            for each in records(document.get("gate_history"))
        ),
    )


def _verdict(gate: Record) -> Mark:
    said = text(gate.get("verdict"))
    return Mark(said, VERDICTS.get(said, ""))


def _counts(counts: Record) -> str:
    return ", ".join(
        f"{count} {severity} {status}"
        for severity, by_status in counts.items()
        for status, count in record(by_status).items()
        if count
    )


def _open_gate(phase: str, review: Record) -> Section | None:
    """Return the section of a review whose gate has not passed, with failing items first."""
    items = sorted(records(review.get("items")), key=lambda item: text(item.get("status")) != "FAIL")
    return section(
        f"Open: {phase}",
        table(
            f"Items of {phase}",
            ("Item", "Severity", "Status", "Check", "Finding", "Where"),
            (
                (
                    item.get("id"),
                    Mark(text(item.get("severity")), SEVERITIES.get(text(item.get("severity")), "")),
                    Mark(text(item.get("status")), VERDICTS.get(text(item.get("status")), "")),
                    item.get("check"),
                    item.get("finding") or item.get("acceptance_reason"),
                    "" if item.get("scope") == "*" else item.get("scope"),
                )
                for item in items
            ),
        ),
        about=(Mark(f"review {text(review.get('iteration'))}", "amber"),),
    )


def _drawing(plan: Record, milestones: list[Record], outcomes: Record) -> Drawing | None:
    """Draw the milestones. Milestones of one wave are in one column, since each waits for the wave before."""
    waves = [texts(each.get("milestones")) for each in _ordered(plan)]
    before = {name: waves[number - 1] if number else () for number, wave in enumerate(waves) for name in wave}
    boxes = []
    for each in milestones:
        name = text(each.get("id"))
        outcome = text(record(outcomes.get(name)).get("outcome"))
        depends = texts(each.get("depends_on")) or before.get(name, ())
        state = STATES.get(outcome, "PENDING")
        boxes.append(Box(name, depends, state, f"{name} {text(each.get('name'))}", (outcome or "planned").lower()))
    return drawing("Graph of the milestones", boxes) if len(boxes) > 1 else None


def _ordered(plan: Record) -> list[Record]:
    waves = records(record(plan.get("milestone_dependencies")).get("waves"))
    return sorted(waves, key=lambda each: number(each.get("wave")))


def _waves(plan: Record) -> Any:
    return table(
        "Milestones that may be worked on at the same time",
        ("Wave", "Milestones"),
        ((each.get("wave"), ", ".join(told(each.get("milestones")))) for each in _ordered(plan)),
    )


def _became(milestones: list[Record], outcomes: Record, report: Record) -> Any:
    reviewed = {text(each.get("id")): each for each in records(report.get("milestones"))}

    def rows() -> Iterable[tuple[Any, ...]]:
        for each in milestones:
            name = text(each.get("id"))
            said, outcome = reviewed.get(name, {}), record(outcomes.get(name))
            review, became = text(said.get("review")), text(outcome.get("outcome"))
            yield (
                f"{name} {text(each.get('name'))}",
                Mark(became.lower().replace("_", " "), OUTCOMES.get(became, "")),
                Mark(review.lower().replace("_", " "), OUTCOMES.get(review, "")),
                "; ".join(told(said.get("deviations"))),
                told(outcome.get("untouched")),
                outcome.get("delegated_to"),
            )

    head = ("Milestone", "Its steps", "Plan against outcome", "Deviations", "Untouched files", "Delegated to")
    return table("Milestones and their results", head, rows())


def _milestone(each: Record, outcome: Record) -> Section | None:
    tests, written = record(each.get("tests")), record(each.get("documentation"))
    scenarios = record(tests.get("scenarios"))
    became = text(outcome.get("outcome"))
    changes = chain.from_iterable(
        (
            code(change.get("diff"), f"{text(change.get('id'))} for {text(change.get('intent_ref'))}", is_diff=True),
            listing(change.get("why_comments"), "Why"),
        )
        for change in records(each.get("code_changes"))
    )
    return section(
        f"{text(each.get('id'))} {text(each.get('name'))}",
        files(each.get("files"), "Files"),
        listing(each.get("requirements"), "Requirements"),
        listing(each.get("acceptance_criteria"), "Accepted when"),
        table(
            "Code intents",
            ("Intent", "Where", "Goal", "Decided by"),
            (
                (
                    intent.get("id"),
                    " ".join(filter(None, (text(intent.get("file")), text(intent.get("function"))))),
                    intent.get("behavior"),
                    ", ".join(told(intent.get("decision_refs"))),
                )
                for intent in records(each.get("code_intents"))
            ),
        ),
        facts(
            flags=", ".join(told(each.get("flags"))),
            after=", ".join(told(each.get("depends_on"))),
            tested_by=" ".join(filter(None, (text(tests.get("type")), text(tests.get("backing"))))),
            no_tests_because=tests.get("skip_reason"),
        ),
        files(tests.get("files"), "Tests"),
        *(listing(scenarios.get(name), f"Scenarios: {name}") for name in ("normal", "edge", "error")),
        *changes,
        prose(written.get("module_comment"), "Module comment"),
        listing(
            [f"{d.get('function')}: {d.get('docstring')}" for d in records(written.get("docstrings"))], "Docstrings"
        ),
        about=(Mark(became.lower(), OUTCOMES.get(became, "")),) if became else (),
        is_nested=True,
    )


def _reasons(context: Record) -> Iterator[Section | None]:
    for title, label, name, columns in REASONS:
        rows = ([each.get(field) for field in columns.values()] for each in records(context.get(name)))
        yield section(title, table(label, tuple(columns), rows))


def _knowledge(known: Record) -> Section | None:
    architecture, flow = record(known.get("architecture")), record(known.get("data_flow"))
    return section(
        "Knowledge outside of the code",
        prose(architecture.get("description"), "Architecture"),
        code(architecture.get("diagram_ascii")),
        prose(flow.get("description"), "Data flow"),
        code(flow.get("diagram_ascii")),
        prose(known.get("structure_rationale"), "Why it is built so"),
        listing(known.get("invariants"), "Invariants"),
        listing(known.get("tradeoffs"), "Trade-offs"),
    )


def _context(context: Record) -> Section | None:
    names = ("task_spec", "constraints", "entry_points", "rejected_alternatives", "current_understanding")
    more = ("assumptions", "invisible_knowledge", "user_quotes")
    told = (listing(context.get(name), name.replace("_", " ").capitalize()) for name in (*names, *more))
    return section("Input of the planning", *told)
