"""What the end of the demo shows of gaps and iterations: a line each."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.gap import Gap, IterationPlan
from schemas.plan import PlanView


def report_page(gaps: Iterable[Gap]) -> str:
    """Show gaps in their order, each with the first line of its evidence."""
    lines = []
    for gap in gaps:
        lines.append(f"{gap.priority.value:<7} {gap.category:<8} {gap.description}")
        lines += [f"{'':16} {line}" for line in gap.evidence.splitlines()[:1]]
    return "\n".join(lines)


def iteration_line(view: PlanView) -> str:
    """Show what an iteration was about, from its document, and how it ended."""
    plan = IterationPlan.model_validate(view.document)
    action = plan.actions[0]
    attempts = sum(step.attempt for step in view.steps)
    return "\n".join(
        (
            f"{plan.iteration_id}  {plan.gap.category}  {view.state} after {attempts} attempts",
            f"  {action.action_type.value} {', '.join(action.target_files)}, risk {plan.estimated_risk.value}:"
            f" {action.description}",
            *(f"  {criterion}" for criterion in plan.acceptance_criteria[2:]),
        )
    )
