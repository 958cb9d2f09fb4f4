"""Writes plan.md: plan.json as a text for people; nothing ever reads plan.md back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schemas.kinds.reviewed_plan_files import CodeIntent, Comment, Diagram, Documentation, MilestoneTests, Plan
from tasks.strategies.reviewed_plan.milestones import waves_of


def plan_md(plan: Plan) -> str:
    """Return the whole plan as Markdown."""
    return "\n".join(line for part in SECTIONS for line in part(plan)).rstrip() + "\n"


def _overview(plan: Plan) -> Iterator[str]:
    yield from (f"# {_flat(plan.overview.title or 'Plan')}", "")
    yield from (f"Plan {plan.plan_id}, {f'frozen at {plan.frozen_at}' if plan.frozen_at else 'not frozen'}.", "")
    yield from _text("Problem", plan.overview.problem)
    yield from _text("Approach", plan.overview.approach)


def _context(plan: Plan) -> Iterator[str]:
    context = plan.planning_context
    yield from _list(
        "Decisions",
        (f"**{e.id}** {e.decision}. {e.reasoning_chain}{_aside(e.timestamp)}" for e in context.decision_log),
    )
    yield from _list(
        "Rejected alternatives",
        (f"**{e.id}** {e.alternative}: {e.rejection_reason} ({e.decision_ref})" for e in context.rejected_alternatives),
    )
    yield from _list(
        "Constraints", (f"**{e.id}** {e.type}: {e.description}{_aside(e.source)}" for e in context.constraints)
    )
    yield from _list(
        "Risks", (f"**{e.id}** {e.risk}: {e.mitigation}{_aside(e.anchor, e.decision_ref)}" for e in context.known_risks)
    )


def _knowledge(plan: Plan) -> Iterator[str]:
    known = plan.invisible_knowledge
    yield from _diagram("Architecture", known.architecture)
    yield from _diagram("Data flow", known.data_flow)
    yield from _text("Why it is built so", known.structure_rationale)
    yield from _list("Invariants", known.invariants)
    yield from _list("Trade-offs", known.tradeoffs)


def _milestones(plan: Plan) -> Iterator[str]:
    for milestone in sorted(plan.milestones, key=lambda each: each.number):
        yield from (f"## Milestone {milestone.number}: {_flat(milestone.name)} ({milestone.id})", "")
        yield f"Files: {', '.join(f'`{path}`' for path in milestone.files)}."
        if milestone.flags:
            yield f"Flags: {', '.join(milestone.flags)}."
        if milestone.depends_on:
            yield f"After: {', '.join(milestone.depends_on)}."
        if milestone.is_documentation_only:
            yield "Documentation only."
        if milestone.delegated_to:
            yield f"Delegated to: {_flat(milestone.delegated_to)}."
        yield ""
        yield from _list("Requirements", milestone.requirements, 3)
        yield from _list("Acceptance criteria", milestone.acceptance_criteria, 3)
        yield from _tests(milestone.tests)
        yield from _list("Code intents", map(_intent, milestone.code_intents), 3)
        for change in milestone.code_changes:
            yield from (f"### {change.id} for {change.intent_ref}", "", *_fenced(change.diff, "diff"), "")
            yield from _list("Why", change.why_comments, 4)
        yield from _written(milestone.documentation)


def _intent(intent: CodeIntent) -> str:
    place = f"`{intent.file}`" + (f" `{intent.function}`" if intent.function else "")
    params = (f"{name}: {value}" for name, value in intent.params.items())
    return f"**{intent.id}** {place} {intent.behavior}{_aside(*intent.decision_refs, *params)}"


def _tests(tests: MilestoneTests) -> Iterator[str]:
    yield from _list("How it is tested", filter(None, (tests.type, tests.backing)), 3)
    yield from _list("Tests", (f"`{path}`" for path in tests.files), 3)
    for name in ("normal", "edge", "error"):
        yield from _list(f"Scenarios: {name}", getattr(tests.scenarios, name), 4)
    yield from _text("No tests, because", tests.skip_reason or "", 3)


def _written(written: Documentation) -> Iterator[str]:
    yield from _text("Module comment", written.module_comment or "", 3)
    yield from _list("Docstrings", (f"`{e.function}` {e.docstring}" for e in written.docstrings), 3)
    yield from _list("Algorithms", (_comment(e.function, e) for e in written.algorithm_blocks), 3)
    yield from _list("Inline comments", (_comment(e.location, e) for e in written.inline_comments), 3)


def _comment(place: str, comment: Comment) -> str:
    return f"`{place}` {comment.comment}{_aside(comment.decision_ref, comment.source)}"


def _waves(plan: Plan) -> Iterator[str]:
    lines = (f"{number}: {', '.join(each.id for each in wave)}" for number, wave in enumerate(waves_of(plan), 1))
    yield from _list("Waves", lines)
    if plan.milestone_dependencies.diagram_ascii:
        yield from (*_fenced(plan.milestone_dependencies.diagram_ascii), "")


SECTIONS = (_overview, _context, _knowledge, _milestones, _waves)


def _text(title: str, text: str, level: int = 2) -> Iterator[str]:
    if text.strip():
        yield from (f"{'#' * level} {title}", "", text.strip(), "")


def _list(title: str, lines: Iterable[str], level: int = 2) -> Iterator[str]:
    some = [_flat(line) for line in lines]
    if some:
        yield from (f"{'#' * level} {title}", "", *(f"- {line}" for line in some), "")


def _diagram(title: str, diagram: Diagram) -> Iterator[str]:
    yield from _text(title, diagram.description)
    if diagram.diagram_ascii.strip():
        yield from (*_fenced(diagram.diagram_ascii), "")


def _fenced(text: str, language: str = "") -> tuple[str, ...]:
    """Return code in a fence that is longer than every fence inside."""
    fence = "```"
    while fence in text:
        fence += "`"
    return (fence + language, text.rstrip("\n"), fence)


def _aside(*words: str | None) -> str:
    some = ", ".join(filter(None, words))
    return f" ({some})" if some else ""


def _flat(text: str) -> str:
    return " ".join(text.split())
