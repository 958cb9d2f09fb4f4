"""Steps with patterns run side by side only where these are for folders apart."""

from __future__ import annotations

import pytest

from schemas.step import PlannedStep
from tests.support.plans import Running, a_report, a_step


def wide(step_id: str, *patterns: str, files: tuple[str, ...] = ()) -> PlannedStep:
    return a_step(step_id, files=files).model_copy(update={"allowed_patterns": patterns})


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (wide("a", "src/**"), wide("b", "tests/**"), True),
        (wide("a", "src/**"), wide("b", "src/api/**"), False),
        (wide("a", "src/*.py"), wide("b", "src/*.js"), False),
        (wide("a", "src/**"), wide("b", "srcs/**"), True),
        (wide("a", "src/**", "docs/*.md"), wide("b", "docs/x/**"), False),
        (wide("a", "**/*.py"), wide("b", "tests/**"), False),
        (wide("a", "src/**"), a_step("b", files=["src/deep/b.py"]), False),
        (a_step("a", files=["src/deep/b.py"]), wide("b", "src/**"), False),
        (wide("a", "src/**"), a_step("b", files=["tests/b.py"]), True),
        (wide("a", "src/**", files=("README.md",)), wide("b", "tests/**", files=("README.md",)), False),
        (a_step("a"), a_step("b"), True),
    ],
)
def test_what_may_be_the_same_file_is_changed_by_one_attempt_at_a_time(
    first: PlannedStep, second: PlannedStep, together: bool
) -> None:
    plan = Running(first, second)

    assert [*plan.active] == ["a", "b"] if together else ["a"]
    plan.report(a_report("a"))
    assert "b" in plan.active


def test_a_plain_success_starts_nothing_beside_a_step_with_patterns_of_its_folder() -> None:
    steps = [a_step("a"), wide("b", "src/**"), a_step("c", "a", files=["src/c.py"]), a_step("d", "a", files=["d.py"])]
    plan = Running(*[step.model_copy(update={"allow_empty": True}) for step in steps], max_parallel=3)
    plan.store.wait(1)
    assert [*plan.active] == ["a"]

    plan.report(a_report("a", metrics={"tokens_used": 5, "patch_cycles": 1}, touched_files=["src/a.py"]))

    assert [*plan.active] == ["b", "d"]
