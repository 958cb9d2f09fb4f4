"""The step that explores a repository for a campaign, and what becomes of its answer (seed 003, READ_EXPLORATION)."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from schemas.base import MODE_OF_TYPE, StepType
from schemas.campaign import Exploration
from schemas.goal import Goal
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.rules.risk import estimate
from tasks.rules.strategy import Phase
from tasks.strategies.campaign.knowing import explored, quorum, remembering, sound
from tasks.strategies.campaign.scope import Scope
from tasks.strategies.campaign.state import Known
from tasks.text.fields import MAX_GUIDANCE, MAX_INTENT, filled, fit, guidance
from tasks.text.json_in_prose import decoded

EXPLORE = "explore"
READING = Phase("READ_EXPLORATION", "Step: exploration, Status: reading context")
FALLING_BACK = Phase("READ_EXPLORATION", "Step: exploration, Status: falling back on memory")
RETRIES = 1  # a second refusal leaves memory to go by, before too many failures in a row end the plan
_MODES = ("one mode", "two modes", "three modes", "all four modes")
_TOLD = 3  # mistakes of a document

_ASKED = (
    'Answer in `output` with one JSON object of four modes, each with a "status" of ok, partial or error: '
    '{"structure": {"status": "ok", "test_pattern": "tests/test_*.py", "file_count": 12, "language": "python"}, '
    '"pattern": {"status": "ok", "framework": "none", "confidence": 0.8, "idioms": {"required": [], "forbidden": []}}, '
    '"memory": {"status": "ok", "failures": [{"name": "", "cost": 0, "fix": ""}], "patterns": [], '
    '"similar_campaigns": []}, "delta": {"status": "ok", "search_terms": [], "candidates": [{"path": "src/a.py", '
    '"functions": [{"name": "login", "line": 10}], "relevance": "high"}]}}. '
    "Relevance is high, medium or low. At least {quorum} must come to something."
)


def explore_step(goal: Goal, least: int) -> PlannedStep:
    """Make the step that asks for an exploration, `least` modes of which must come to something."""
    asked = _ASKED.replace("{quorum}", _MODES[least - 1])
    mode = MODE_OF_TYPE[StepType.EXPLORE]
    constraints = guidance(goal.constraints)
    return PlannedStep(
        step_id=EXPLORE,
        title="Explore the repository",
        intent=filled("Find out what a plan must know, without changing anything, for: {goal}", goal.goal, MAX_INTENT),
        controller_task_spec=ControllerTaskSpec(type=StepType.EXPLORE),
        mode=mode,
        success_criteria="The four modes are answered, each with its status.",
        guidance=fit(f"{asked} {constraints}" if constraints else asked, MAX_GUIDANCE),
        retry_limit=RETRIES,
        queue=goal.queue,
        estimate=estimate(mode),
    )


def read(known: Known, exploration: Exploration | None, scope: Scope) -> tuple[Known, Phase]:
    """Add an exploration to what is known, or only its memory where too few of its modes came to something."""
    if exploration is None:
        return known, FALLING_BACK
    most = scope.terms.failures
    if quorum(exploration) < scope.terms.quorum:
        memory = sound(exploration.memory)
        told = memory is not None and (memory.failures or memory.patterns)
        return remembering(known, memory if told else None, most), FALLING_BACK
    return explored(known, exploration, scope.allowed, most), READING


def exploration_of(output: Any) -> Exploration | str:
    """Read an exploration from whatever a controller answered; a sentence where it is none."""
    try:
        output = decoded(output)
    except ValueError:
        output = None
    if not isinstance(output, dict):
        return "The output is no exploration: it must be a JSON object with structure, pattern, memory and delta."
    try:
        found = Exploration.model_validate(output)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False, include_input=False)[:_TOLD]
        told = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in wrong)
        return fit(f"The output is no exploration: {told}.", MAX_INTENT)
    if not any((found.structure, found.pattern, found.memory, found.delta)):
        return "The output is no exploration: it has none of structure, pattern, memory and delta."
    return found
