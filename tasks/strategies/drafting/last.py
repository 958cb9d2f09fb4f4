"""The last step of a drafted plan: whatever its drafter verifies, the goal's own tests run at the end."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import below, estimate
from tasks.strategies.drafting.project import Project, only_documents
from tasks.text.fields import MAX_INTENT, filled, fit
from tasks.toolchain.catalogue import Catalogue, render


def last_check(
    project: Project, steps: Sequence[PlannedStep], tools: tuple[VerifyTool, ...], step_id: str, about: str
) -> tuple[PlannedStep, ...]:
    """Make the step that runs `tools` after all `steps`; none where the last of them does so already."""
    changed = tuple(path for step in steps for path in step.allowed_files)
    ends = _ends(steps)
    if not tools or not changed or only_documents(changed) or _is_covered(ends, tools):
        return ()
    mode = MODE_OF_TYPE[StepType.TEST]
    return (
        PlannedStep(
            step_id=step_id,
            title="Verify the plan as a whole",
            intent=filled("Verify all that was changed for: {goal}", fit(about, MAX_INTENT), MAX_INTENT),
            verify=render(tools),
            risk_level=_level(tools, project.catalogue),
            controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
            mode=mode,
            success_criteria="Every test passes.",
            depends_on=tuple(step.step_id for step in ends),
            verify_tools=tools,
            queue=project.goal.queue,
            estimate=estimate(mode),
        ),
    )


def _ends(steps: Sequence[PlannedStep]) -> list[PlannedStep]:
    waited = {name for step in steps for name in step.depends_on}
    return [step for step in steps if step.step_id not in waited]


def _is_covered(ends: Sequence[PlannedStep], tools: Sequence[VerifyTool]) -> bool:
    return len(ends) == 1 and {tool.argv for tool in tools} <= {tool.argv for tool in ends[0].verify_tools}


def _level(tools: Sequence[VerifyTool], catalogue: Catalogue) -> RiskLevel:
    level = RiskLevel.LOW
    for tool in tools:
        least = catalogue.contracts[tool.tool].min_risk
        level = least if below(level, least) else level
    return level
