"""OUTPUT_PLAN: makes the document of a campaign, with its task graph as a drawing.

The document has the keys of plan.json, and in addition `complexity`, `task_count`, `framework_confidence`,
`idioms_enforced`, `graph`, `mermaid` and `progress`. `confidence` is the header with the decision. `outside` lists
candidates that the goal does not allow. `drafted_by` is the origin of the tasks: the goal, the templates, or a drafter.

In the drawing a chain of tasks is one line. A bracket joins the lines that end in the same task. A line that branches
off from another line begins with the numbers of its dependencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.kinds.campaign import LEAST_CONFIDENCE, CampaignPlan, CoherenceDecision, PlanTask
from tasks.strategies.campaign.formulas import complexity, task_count
from tasks.strategies.campaign.sequence import graph, kebab
from tasks.strategies.campaign.state import REPORTED, Knowledge, TaskProgress

ARROW = " ──→ "


def campaign_name(objective: str) -> str:
    """Return the name of a campaign: the first line of its objective."""
    lines = (line.lstrip("# \t").strip() for line in objective.splitlines())
    return kebab(next(filter(None, lines), "")) or "campaign"


def document_of(
    objective: str, known: Knowledge, decision: CoherenceDecision | None = None, tasks: Sequence[PlanTask] = ()
) -> dict[str, Any]:
    """Return the document of a campaign; without a decision it is not planned yet."""
    plan = CampaignPlan(
        objective=objective,
        campaign=campaign_name(objective),
        framework=known.framework,
        idioms=known.idioms,
        tasks=tuple(tasks),
    )
    document = plan.model_dump(mode="json", exclude_none=True)
    if decision:
        document |= {
            "confidence": f"### Confidence: {decision}",
            "complexity": complexity(known),
            "task_count": task_count(complexity(known)),
            "framework_confidence": known.confidence,
            "idioms_enforced": known.confidence >= LEAST_CONFIDENCE,
            "outside": list(known.outside),
        }
    return document | ({"graph": drawing(tasks), "mermaid": mermaid(tasks)} if tasks else {})


def progress_report(progress: Mapping[str, TaskProgress]) -> dict[str, Any]:
    """Return for each task, by its number, its progress and, if it is blocked, the report of its controller."""
    report: dict[str, Any] = {}
    for seq, each in progress.items():
        noted = each.model_dump(mode="json", exclude={"steps", "setback", "before", "rewritten"}, exclude_none=True)
        blocked = each.setback.model_dump(mode="json", include={*REPORTED}, exclude_none=True) if each.setback else {}
        report[seq] = noted | blocked
    return report


def document_with(
    document: Mapping[str, Any], tasks: Sequence[PlanTask], progress: Mapping[str, TaskProgress]
) -> dict[str, Any]:
    """Return a copy of the document with these tasks, their graph and their progress."""
    listed = [task.model_dump(mode="json", exclude_none=True) for task in tasks]
    drawn = {"graph": drawing(tasks), "mermaid": mermaid(tasks)}
    return {**document, "tasks": listed, **drawn, "progress": progress_report(progress)}


def mermaid(tasks: Sequence[PlanTask]) -> str:
    """Return the task graph as a Mermaid diagram."""
    nodes = [f'  t{task.seq}["{task.seq} {task.slug}"]' for task in tasks]
    edges = [f"  t{other} --> t{name}" for name, others in graph(tasks).items() for other in others]
    return "\n".join(("graph LR", *nodes, *edges)) + "\n"


def drawing(tasks: Sequence[PlanTask]) -> str:
    """Return the task graph as text with arrows and brackets."""
    waits = graph(tasks)
    label = {task.seq: f"{task.seq} ({task.slug})" for task in tasks}
    rows = _rows(waits)
    joins = _joins(waits, rows)
    joined = {head for others in joins.values() for head in others} | set(joins)
    lines: list[str] = []
    for head, row in rows.items():
        if head in joins:
            texts = [_line(waits, rows[other], label) for other in joins[head]]
            lines += _bracket(texts, ARROW.join(label[seq] for seq in row))
        elif head not in joined:
            lines.append(_line(waits, row, label))
    return "\n".join(lines) + "\n"


def _rows(waits: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Split the task graph into chains, each by its first task.

    In a chain each task waits only for the task before it.
    """
    followers: dict[str, list[str]] = {name: [] for name in waits}
    for name, others in waits.items():
        for other in others:
            followers[other].append(name)
    follows = {name for name, others in waits.items() if len(others) == 1 and len(followers[others[0]]) == 1}
    rows: dict[str, list[str]] = {}
    for head in (name for name in waits if name not in follows):
        rows[head] = [head]
        while (after := followers[rows[head][-1]]) and len(after) == 1 and after[0] in follows:
            rows[head].append(after[0])
    return rows


def _joins(waits: Mapping[str, Sequence[str]], rows: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return which chains end directly before a task with several dependencies, by that task.

    Each chain is in one join at most.
    """
    by_end = {row[-1]: head for head, row in rows.items()}
    joins: dict[str, list[str]] = {}
    used: set[str] = set()  # each row is joined once, on one side
    for head in rows:
        others = [by_end[other] for other in waits[head] if other in by_end]
        if len(others) == len(waits[head]) > 1 and used.isdisjoint((*others, head)):
            joins[head] = others
            used.update((*others, head))
    return joins


def _line(waits: Mapping[str, Sequence[str]], row: Sequence[str], label: Mapping[str, str]) -> str:
    before = ", ".join(waits[row[0]])
    return (before + ARROW if before else "") + ARROW.join(label[seq] for seq in row)


def _bracket(texts: Sequence[str], end: str) -> Iterator[str]:
    width = max(map(len, texts)) + len(" ──")
    middle = len(texts) // 2
    for place, text in enumerate(texts):
        if place == middle:
            yield " " * width + "├" + ARROW.strip() + " " + end
        corner = "┐" if place == 0 else "┘" if place == len(texts) - 1 else "┤"
        yield f"{text} ".ljust(width, "─") + corner
