"""Steps that a goal brought along, said again as a goal brings them: the plan of a retry is the same."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.base import Mode, RiskLevel, StepType
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.strategies.drafting.project import Project
from tasks.strategies.task.supplied import convert, supply
from tasks.toolchain.catalogue import CATALOGUE

VERIFY = [
    None, "pytest", "pytest tests/test_b.py -v", "pytest -x tests", "python-syntax", "python-full", "npm test",
    "go test ./...", "cargo test -- --nocapture", "ruff check --fix a.py", "make test", ["pytest", "ruff check a.py"],
    {"tool": "pytest", "args": ["tests/test_a.py::test_x[a b]"]}, "quick", "focused", "full", ["pytest", "focused"],
]  # fmt: skip
WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P")), min_size=1, max_size=20)
STEP: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "step_id": st.sampled_from(["a", "b", "c-1"]),
        "title": WORDS,
        "intent": WORDS,
        "verify": st.sampled_from(VERIFY),
    },
    optional={
        "allowed_files": st.lists(st.sampled_from(["a.py", "src/b c.py", ".github/ci.yml"]), unique=True),
        "success_criteria": WORDS,
        "depends_on": st.lists(st.sampled_from(["a", "b"]), unique=True),
        "type": st.sampled_from(StepType),
        "mode": st.sampled_from(Mode),
        "risk_level": st.sampled_from(RiskLevel),
        "retry_limit": st.integers(0, 3),
        "rollback_hint": WORDS,
        "queue": st.just("gpu"),
        "estimate": st.fixed_dictionaries({}, optional={"tokens": st.integers(0, 9), "patch_cycles": st.just(2)}),
        "controller_task_spec": st.fixed_dictionaries({"hint": WORDS}),
    },
)
STEPS = st.lists(STEP, min_size=1, max_size=3, unique_by=lambda step: str(step["step_id"]))


def planned(steps: list[dict[str, Any]]) -> tuple[PlannedStep, ...]:
    """Plan the steps of a goal, without what explains a risk that the planner raised."""
    context = {"language": "python", "manifests": {"pyproject.toml": "[tool.ruff]\n[tool.mypy]\n"}}
    said = {"goal": "Fix b", "steps": steps, "constraints": ["no new files"], "context": context}
    goal = Goal.model_validate(said)
    found, errors = convert(goal.steps or (), Project.of(goal, ("a.py",), None, CATALOGUE))
    assert errors == ()
    return tuple(step.model_copy(update={"guidance": None}) for step in found)


@given(STEPS)
def test_steps_that_are_said_again_are_planned_the_same(steps: list[dict[str, Any]]) -> None:
    first = planned(steps)

    assert planned([supply(step) for step in first]) == first
