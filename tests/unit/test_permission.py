"""What a step may change by patterns: stored once for a plan, told to controllers, and nothing of it in other specs."""

from __future__ import annotations

from typing import Any

from schemas import codec
from schemas.base import RiskLevel
from schemas.step import Place, PlannedStep
from schemas.stored.step import TEXTS
from tests.support.plans import Running, a_failure, a_report, a_step

PATTERNS = tuple(f"src/part{number}/**" for number in range(20))
NEW = {"allowed_patterns", "excluded_patterns", "focus", "requires", "max_files", "max_risk"}


def permitting(step_id: str, *after: str, **more: Any) -> PlannedStep:
    """A step that may change what the patterns match."""
    return a_step(step_id, *after, risk=RiskLevel.MED).model_copy(
        update={"allowed_patterns": PATTERNS, "excluded_patterns": ("**/conftest.py",), **more}
    )


def test_a_controller_reads_what_a_step_may_change_and_where_to_look_first() -> None:
    place = Place(path="src/a.py", lines="10-40", why="the trace names it")
    plan = Running(
        permitting("a", focus=(place, Place(path="src/b.py", why="its test failed")), requires=("patterns",))
    )

    (spec,) = plan.waiting("default")

    assert (spec["allowed_patterns"], spec["excluded_patterns"]) == (list(PATTERNS), ["**/conftest.py"])
    assert spec["focus"] == [
        {"path": "src/a.py", "lines": "10-40", "why": "the trace names it"},
        {"path": "src/b.py", "why": "its test failed"},
    ]
    assert spec["requires"] == ["patterns"]
    assert (spec["limits"]["max_files"], spec["limits"]["max_risk"]) == (5, "MED")


def test_specs_of_other_steps_are_as_long_as_they_were() -> None:
    plan = Running(a_step("a"), a_step("b", "a"))
    first = plan.waiting("default")
    plan.report(a_report("a"))

    for spec in (*first, *plan.waiting("default")):
        assert NEW.isdisjoint(spec)
        assert NEW.isdisjoint(spec["limits"])


def test_many_named_files_are_limited_in_how_many_of_them_are_changed() -> None:
    plan = Running(a_step("a", files=[f"src/{number}.py" for number in range(11)]))

    (spec,) = plan.waiting("default")

    assert (spec["limits"]["max_files"], spec["limits"]["max_risk"]) == (10, "LOW")


def test_a_plan_keeps_the_patterns_once_whatever_is_rewritten() -> None:
    plan = Running(permitting("a"), permitting("b", "a"), permitting("c", "b"))
    plan.report(a_failure("a"))
    plan.rest()

    stored = {name: value for name, value in plan.store.hash(plan.keys.steps).items() if name != TEXTS}

    assert not any(PATTERNS[0].encode() in value for value in stored.values())
    assert codec.loads(plan.store.hash(plan.keys.steps)[TEXTS])[0] == "\n".join(PATTERNS)
    assert plan.waiting("default")[-1]["allowed_patterns"] == list(PATTERNS)
