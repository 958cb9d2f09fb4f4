"""Files above the level of their step get a step of their own, at their level, once and without a failure."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import RiskLevel
from schemas.step import Place
from tests.support.commands import an_order
from tests.support.plans import Running, a_report
from tests.support.wide_steps import GLOBS, a_wide_step

RISKY = "src/login.py"


def exceeding(*files: str, success: bool = True, **said: Any) -> Any:
    evidence = {"category": "RISK_EXCEEDED", "affected_files": files[1:]}
    said |= {} if success else {"failure_evidence": evidence}
    return a_report("a", success=success, touched_files=files, patterns=True, **said)


@pytest.mark.parametrize("success", [True, False])
def test_riskier_files_get_a_step_before_the_next_attempt(success: bool) -> None:
    plan = Running(a_wide_step(), files=GLOBS, consecutive_failures=1)

    plan.report(exceeding("src/a.py", RISKY, success=success))

    apart = plan.facts["a-risky"]
    assert (apart["allowed_files"], apart["risk_level"], apart.get("allowed_patterns", [])) == ([RISKY], "MED", [])
    assert apart["verify"] == f"python -m py_compile {RISKY}"
    assert (plan.facts["a"]["depends_on"], plan.facts["a"]["allowed_patterns"]) == (["a-risky"], list(GLOBS))
    assert ([*plan.active], plan.states["a"]) == (["a-risky"], "ACTIVE")
    assert (plan.steps["a"].failures, plan.record.counters.consecutive) == (0, 0)
    plan.report(a_report("a-risky", touched_files=[RISKY]))
    assert "changed by a-risky before this attempt" in (plan.steps["a"].previous or {})["suggestion"]
    plan.report(a_report("a", touched_files=["src/a.py"]))
    assert plan.state == "COMPLETED"


def test_riskier_files_keep_the_places_that_were_found_in_them() -> None:
    places = tuple(Place(path=path, why="The failure names it.") for path in ("src/a.py", RISKY))
    plan = Running(a_wide_step().model_copy(update={"focus": places}), files=GLOBS)

    plan.report(exceeding("src/a.py", RISKY))

    assert [place["path"] for place in plan.facts["a-risky"]["focus"]] == [RISKY]


def test_riskier_files_require_what_the_step_did_but_for_its_patterns() -> None:
    plan = Running(a_wide_step().model_copy(update={"requires": ("patterns", "setup"), "setup": True}), files=GLOBS)

    plan.report(exceeding("src/a.py", RISKY))

    assert plan.facts["a-risky"]["requires"] == ["setup"]


def test_the_second_time_it_is_a_failure() -> None:
    plan = Running(a_wide_step(), files=GLOBS)
    plan.report(exceeding("src/a.py", RISKY))
    plan.report(a_report("a-risky", touched_files=[RISKY]))

    plan.report(exceeding("src/a.py", "src/permissions.py"))

    assert (plan.state, plan.steps["a"].failures) == ("EXECUTING", 1)
    assert "this happened to the step before" in (plan.steps["a"].previous or {})["suggestion"]


def test_a_person_approves_the_step_of_the_riskier_files() -> None:
    plan = Running(a_wide_step(), files=GLOBS, approvals=["MED"])

    plan.report(exceeding("src/a.py", RISKY))

    assert not plan.active
    assert [*plan.record.waits] == ["a-risky"]
    plan.obey(an_order("approve", "a-risky"))
    assert [*plan.active] == ["a-risky"]


@pytest.mark.parametrize(
    ("report", "limits", "told"),
    [
        (exceeding(*(f"src/migrations/{number}.py" for number in range(3))), {}, "they are 3, and a HIGH step"),
        (exceeding("src/a.py", RISKY), {"max_steps": 1}, "raise limits.max_steps"),
        (exceeding("src/a.py", success=False), {}, "which ones is not known"),
    ],
)
def test_what_gets_no_step_is_a_failure(report: Any, limits: dict[str, int], told: str) -> None:
    plan = Running(a_wide_step(), files=GLOBS, **limits)

    plan.report(report)

    assert (plan.state, plan.steps["a"].failures) == ("EXECUTING", 1)
    assert told in (plan.steps["a"].previous or {})["suggestion"]


def test_a_step_of_a_higher_level_may_change_them() -> None:
    plan = Running(a_wide_step(risk=RiskLevel.MED), files=GLOBS)

    plan.report(exceeding("src/a.py", RISKY))

    assert plan.state == "COMPLETED"


def importing(path: str, module: str) -> dict[str, Any]:
    files = [*GLOBS, "src/a.py", RISKY]
    return {"files": files, "context": {"documents": {path: f"from src.{module} import x\n"}}}


def test_riskier_files_that_import_what_else_was_changed_come_behind_it() -> None:
    last = a_wide_step("b", "a")
    plan = Running(a_wide_step(), last, consecutive_failures=1, **importing(RISKY, "a"))

    plan.report(exceeding("src/a.py", RISKY))

    assert "a-risky" not in plan.facts
    assert "changed by a-risky after this step" in (plan.steps["a"].previous or {})["suggestion"]
    assert ([*plan.active], plan.steps["a"].failures) == (["a"], 0)
    plan.report(a_report("a", touched_files=["src/a.py"]))
    assert ([*plan.active], plan.facts["a-risky"]["allowed_files"]) == (["a-risky"], [RISKY])
    assert (plan.facts["a-risky"]["depends_on"], plan.facts["b"]["depends_on"]) == (["a"], ["a-risky"])
    plan.report(a_report("a-risky", touched_files=[RISKY]))
    plan.report(a_report("b", touched_files=["src/b.py"]))
    assert plan.state == "COMPLETED"


def test_riskier_files_that_others_import_go_before_them() -> None:
    plan = Running(a_wide_step(), **importing("src/a.py", "login"))

    plan.report(exceeding("src/a.py", RISKY))

    assert [*plan.active] == ["a-risky"]
