"""OUTPUT_PLAN: the plan document, which is the seed's plan.json and more keys beside it (seed 003).

Beside plan.json's own: `confidence` (the header), `complexity`, `task_count`, `framework_confidence`,
`idioms_enforced`, `outside` (candidates that the goal does not allow), `graph`, `mermaid`, `progress` and `drafted_by`
(whose the tasks are: of the goal, of the templates, or of a drafter).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from schemas.campaign import LEAST_CONFIDENCE, Decision
from schemas.campaign_plan import CampaignPlan, PlanTask
from tasks.strategies.campaign.drawing import drawing, mermaid
from tasks.strategies.campaign.making import score
from tasks.strategies.campaign.measures import task_count
from tasks.strategies.campaign.state import Known, Progress
from tasks.strategies.campaign.words import first_line, kebab


def campaign_of(objective: str) -> str:
    """Name a campaign after the first line of its objective."""
    return kebab(first_line(objective)) or "campaign"


def document(
    objective: str, known: Known, decision: Decision | None = None, tasks: Sequence[PlanTask] = ()
) -> dict[str, Any]:
    """Write the document of a campaign; without a decision it is not planned yet."""
    plan = CampaignPlan(
        objective=objective,
        campaign=campaign_of(objective),
        framework=known.framework,
        idioms=known.idioms,
        tasks=tuple(tasks),
    )
    more = {"confidence": f"### Confidence: {decision}", **_measured(known)} if decision else {}
    drawn = {"graph": drawing(tasks), "mermaid": mermaid(tasks)} if tasks else {}
    return {**plan.model_dump(mode="json", exclude_none=True), **more, **drawn}


def reported(progress: Mapping[str, Progress]) -> dict[str, Any]:
    """Write how far each task is."""
    return {seq: each.model_dump(mode="json", exclude={"steps"}, exclude_none=True) for seq, each in progress.items()}


def redrawn(document: Mapping[str, Any], tasks: Sequence[PlanTask], progress: Mapping[str, Progress]) -> dict[str, Any]:
    """Write other tasks into a document."""
    listed = [task.model_dump(mode="json", exclude_none=True) for task in tasks]
    drawn = {"graph": drawing(tasks), "mermaid": mermaid(tasks)}
    return {**document, "tasks": listed, **drawn, "progress": reported(progress)}


def _measured(known: Known) -> dict[str, Any]:
    return {
        "complexity": score(known),
        "task_count": task_count(score(known)),
        "framework_confidence": known.confidence,
        "idioms_enforced": known.confidence >= LEAST_CONFIDENCE,
        "outside": list(known.outside),
    }
