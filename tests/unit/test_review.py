"""A supplied plan whose goal asks for a review ends with all tests, and the quick checks on all that it changed."""

from __future__ import annotations

from typing import Any

from schemas.goal import Goal
from tasks.handlers import goals
from tasks.rules.strategy import Rejected, Setting
from tasks.toolchain.catalogue import CATALOGUE
from tests.corpus.goals import scene, step, supplied
from tests.corpus.play import Player
from tests.support.plans import a_report, fail_and_rest

RUFF = {"manifests": {"pyproject.toml": "[tool.ruff]\n"}}
CHECKED = "ruff check -- src/cart.py src/price.py && python -m py_compile src/cart.py src/price.py"


def reviewed(*steps: dict[str, Any], **fields: Any) -> Player:
    """Play a plan of two patches side by side, which are reviewed."""
    both = steps or (step("a", allowed_files=["src/cart.py", "src/shop.py"]), step("b", allowed_files=["src/price.py"]))
    return Player(scene(supplied(*both, **{"review": True, "context": RUFF, **fields})))


def land(plan: Player) -> None:
    """Have both patches land."""
    plan.report(a_report("a", touched_files=["src/cart.py"], created_files=[]))
    plan.report(a_report("b", touched_files=["src/price.py"], created_files=[]))


def test_a_last_step_waits_for_all_others_and_checks_what_they_changed_and_nothing_else() -> None:
    plan = reviewed()

    assert plan.facts["review-changes"]["depends_on"] == ["a", "b"]
    land(plan)

    (spec,) = [each for each in plan.specs if each["step_id"] == "review-changes"]
    assert (spec["mode"], spec["verify"]) == ("test", f"{CHECKED} && pytest")
    assert spec["quick_checks"] == ["ruff-check"]
    plan.report(a_report("review-changes", touched_files=[], tests_passed=True))
    assert plan.state == "COMPLETED"


def test_files_that_a_later_step_removed_are_not_checked() -> None:
    first, second = (
        step("a", allowed_files=["src/cart.py", "src/shop.py"]),
        step("b", "a", allowed_files=["src/shop.py"]),
    )
    plan = reviewed(first, second)

    plan.report(a_report("a", touched_files=["src/cart.py", "src/shop.py"]))
    plan.report(a_report("b", touched_files=["src/shop.py"], deleted_files=["src/shop.py"]))

    assert "src/shop.py" not in plan.facts["review-changes"]["verify"]
    assert "ruff check -- src/cart.py" in plan.facts["review-changes"]["verify"]


def test_what_it_finds_is_mended_and_it_runs_again() -> None:
    plan = reviewed()
    land(plan)

    fail_and_rest(plan, "review-changes", "TEST_REGRESSION", top_failing_tests=["tests/test_cart.py::test_x"])
    mends = [name for name in plan.active if name.endswith("-mend")]

    assert mends == ["review-changes-mend"]
    assert set(plan.facts["review-changes-mend"]["allowed_files"]) >= {"src/cart.py", "src/price.py"}
    verify = plan.facts["review-changes"]["verify"]
    plan.report(a_report("review-changes-mend", touched_files=["src/shop.py"]))
    assert ([*plan.active], plan.facts["review-changes"]["verify"]) == (["review-changes"], verify)


def test_a_check_that_was_red_before_the_plan_is_not_run_again() -> None:
    old, new = ["src/cart.py", "src/price.py"], "src/new.py"
    plan = reviewed(step("a", allowed_files=[*old, new]), files=[*old, new])
    plan.report(a_report("a", touched_files=[*old, new], created_files=[new]))
    checked = f" && ruff check -- {new} && python -m py_compile {new} && pytest"
    assert plan.facts["review-changes"]["verify"] == CHECKED + checked
    codes = [{"tool": "ruff-check", "exit_code": 1}]

    red: dict[str, Any] = {
        "success": False,
        "failure_evidence": {"category": "LINT_ERROR"},
        "created_files": [],
        "verify": codes,
    }
    plan.report(a_report("review-changes", touched_files=[], **red))
    plan.report(a_report("review-changes-baseline", touched_files=[], verified_at="9f1c2d4", verify=codes))

    assert [*plan.active] == ["review-changes"]
    assert plan.facts["review-changes"]["verify"] == CHECKED.partition(" && ")[2] + checked


def test_no_plan_is_reviewed_that_does_not_ask_for_it() -> None:
    plan = reviewed(review=False)

    land(plan)

    assert plan.state == "COMPLETED"
    assert "review-changes" not in plan.states


def test_without_tests_to_run_a_review_is_rejected() -> None:
    context: dict[str, Any] = {"language": None, "test_command": None, "files": ["notes.lua"], "manifests": {}}
    steps = (step("a", allowed_files=["notes.lua"], verify=None),)
    body = supplied(*steps, review=True, files=["notes.lua"], context=context)

    answer = goals.plan(Goal.model_validate(body), CATALOGUE, Setting())

    assert isinstance(answer, Rejected)
    assert [(error.pointer, error.code) for error in answer.errors] == [("/review", "no_verification")]
