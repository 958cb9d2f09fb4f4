"""Checks that a template added: those that were red before the plan are dropped, and when they are not."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from schemas import codec
from schemas.base import Mode, RiskLevel
from schemas.step import PlannedStep
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.commands import order
from tests.support.plans import Running, a_report, a_step
from worker.render.explanation import draw
from worker.store.history import story_of

SHA = "9f1c2d4"
RUFF, MYPY, TEST = (CATALOGUE.match(f"{each} src/a.py") for each in ("ruff check", "mypy", "pytest"))
TSC = CATALOGUE.match("npx tsc --noEmit")
ADDED = ("ruff-check", "mypy")


def patch(step_id: str = "a", *after: str, added: tuple[str, ...] = ADDED, **more: Any) -> PlannedStep:
    tools = more.pop("tools", (RUFF, MYPY, TEST))
    step = a_step(step_id, *after, files=["src/a.py"], tools=tools, **more)
    return step.model_copy(update={"quick_checks": added})


def ran(*codes: int, tools: tuple[str, ...] = ("ruff-check", "mypy", "pytest")) -> list[dict[str, Any]]:
    return [{"tool": tool, "exit_code": code} for tool, code in zip(tools, codes, strict=False)]


def red(*codes: int, step: str = "a", **said: Any) -> Any:
    """An attempt whose last tool failed."""
    body = {"success": False, "touched_files": ["src/a.py"], "created_files": [], "verify": ran(*codes)}
    return a_report(step, **{**body, "failure_evidence": {"category": "LINT_ERROR"}, **said})


def untold(report: Any) -> Any:
    """The same from a controller that does not say what was created."""
    told = codec.loads(report.raw)
    return a_report(**{name: value for name, value in told.items() if name != "created_files"})


def base(*codes: int, step: str = "a-baseline", **said: Any) -> Any:
    return a_report(step, **{"verified_at": SHA, "touched_files": [], "verify": ran(*codes), **said})


def running(*steps: PlannedStep, **fields: Any) -> Running:
    return Running(*(steps or (patch(),)), **{"base_sha": SHA, **fields})


def whole(step_id: str, *after: str) -> PlannedStep:
    """A step whose added check is about the whole project."""
    step = patch(step_id, *after, added=("tsc",), tools=(TSC, TEST))
    return step.model_copy(update={"allowed_files": (f"src/{step_id}.ts",)})


def red_whole(step: str) -> Any:
    return red(step=step, verify=[{"tool": "tsc", "exit_code": 2}], touched_files=[f"src/{step}.ts"])


def base_whole(step: str, code: int) -> Any:
    return base(step=f"{step}-baseline", verify=[{"tool": "tsc", "exit_code": code}])


def spec_of(plan: Running, step: str = "a") -> dict[str, Any]:
    return plan.facts[step]


def test_the_first_red_of_an_added_check_waits_for_a_baseline_of_them() -> None:
    plan = running(consecutive_failures=1)

    plan.report(red(1))

    assert (plan.state, plan.states["a"], list(plan.active)) == ("EXECUTING", "ACTIVE", ["a-baseline"])
    assert (plan.steps["a"].failures, plan.record.spent["failing_outcomes"]) == (0, 0)
    (spec,) = [each for each in plan.specs if each["step_id"] == "a-baseline"]
    assert (spec["context"]["at"], spec["mode"], spec["allowed_files"]) == ("base", "test", [])
    assert [(tool["tool"], tool["pass_codes"]) for tool in spec["verify_tools"]] == [
        ("ruff-check", [0, 1]),
        ("mypy", [0, 1]),
    ]


@pytest.mark.parametrize(
    ("codes", "left"),
    [((1, 0), ["mypy", "pytest"]), ((1, 1), ["pytest"])],
)
def test_what_was_red_before_is_not_run_any_more(codes: tuple[int, ...], left: list[str]) -> None:
    plan = running()
    plan.report(red(1))

    plan.report(base(*codes))

    spec = plan.specs[-1]
    assert (spec["step_id"], spec["attempt"], [tool["tool"] for tool in spec["verify_tools"]]) == ("a", 2, left)
    assert spec["quick_checks"] == [name for name in ADDED if name in left]
    assert (plan.steps["a"].failures, spec["context"]["previous_failure"]) == (0, None)
    plan.report(a_report("a", touched_files=["src/a.py"]))
    assert plan.state == "COMPLETED"


def test_a_step_of_mode_test_drops_them_as_a_patch_does() -> None:
    whole_step = patch("v", "a").model_copy(update={"mode": Mode.TEST, "allowed_files": ()})
    plan = running(patch(), whole_step)
    plan.report(a_report("a", touched_files=["src/a.py"], created_files=[], verify=ran(0, 0, 0)))

    plan.report(red(0, 1, step="v", touched_files=[]))
    plan.report(base(0, 1, step="v-baseline"))

    assert [tool["tool"] for tool in plan.specs[-1]["verify_tools"]] == ["ruff-check", "pytest"]
    assert "v-mend" not in plan.states
    plan.report(a_report("v", touched_files=[], verify=ran(0, 0, tools=("ruff-check", "pytest"))))
    assert (plan.state, plan.steps["v"].failures) == ("COMPLETED", 0)


@pytest.mark.parametrize("created", [["src/a.py"], None])
def test_of_a_file_that_the_plan_may_have_created_nothing_is_dropped(created: list[str] | None) -> None:
    whole_step = patch("v", "a").model_copy(update={"mode": Mode.TEST, "allowed_files": ()})
    plan = running(patch(), whole_step)
    told: dict[str, Any] = {"created_files": created} if created else {}
    plan.report(a_report("a", touched_files=["src/a.py"], verify=ran(0, 0, 0), **told))

    plan.report(red(0, 1, step="v", touched_files=[]))

    assert "v-baseline" not in plan.states
    assert plan.steps["v"].failures == 1


def test_it_is_explained() -> None:
    plan = running()
    plan.report(red(1))
    plan.report(base(1, 0))
    plan.report(a_report("a", touched_files=["src/a.py"]))

    specs = plan.facts
    told = story_of(plan.log, specs)
    assert [each["result"] for each in told["a"]] == ["RETRIED", "DONE"]
    assert told["a"][0]["revision"]["rule"] == "baseline"
    assert told["a"][0]["revised_later"]["diff"]["quick_checks"] == [list(ADDED), ["mypy"]]
    step = {"step_id": "a", "state": "ACTIVE", "inserted_by": None, "verified": None, "attempts": told["a"]}
    about = {"plan_id": "p", "state": "EXECUTING", "revision": 3, "paused_by": None, "halt": None, "memory": None}
    about["steps"] = [step]
    with (console := Console(width=120)).capture() as shown:
        console.print(draw(about))
    assert "ruff-check was red before the plan, and is not run any more" in shown.get()


@pytest.mark.parametrize(
    "answer",
    [
        base(0, 0),  # it was green
        base(0, 1),  # another one was red
        base(1, 1, verified_at=None),
        base(1, 1, verified_at="0000000"),
        base(1),  # it did not run them all
        base(1, 1, verify=None),
        base(1, 1, verify=ran(1, 1, tools=("mypy", "ruff-check"))),
        base(1, 2),  # mypy did not come to its end
        base(127, 1),
        base(1, 1, success=False),
    ],
)
def test_a_check_of_which_nobody_knows_that_it_was_red_counts(answer: Any) -> None:
    plan = running()
    plan.report(red(1))

    plan.report(answer)

    assert (plan.states["a"], plan.steps["a"].failures) == ("ACTIVE", 1)
    assert [tool["tool"] for tool in spec_of(plan)["verify_tools"]] == ["ruff-check", "mypy", "pytest"]


@pytest.mark.parametrize(
    ("step", "failure", "more"),
    [
        (patch(added=()), red(1), {}),  # the goal asks for it
        (patch(added=("mypy",)), red(1), {}),
        (patch(tools=(RUFF, MYPY)), red(1, 1), {}),  # no other verification remains
        (patch(), red(0, 0, 1), {}),  # the tests are red
        (patch(), red(2), {}),
        (patch(), red(127), {}),
        (patch(), red(1, verify=None), {}),
        (patch(), red(1, verify=ran(1, tools=("mypy",))), {}),
        (patch(), red(1, created_files=["src/a.py"]), {}),  # any check of it is red where it is not
        (patch(), untold(red(1)), {}),  # it may be new
        (patch(), red(1), {"base_sha": None}),
        (patch(), red(1), {"max_steps": 1}),
        (patch(), red(1), {"sentence": "Fix the failing tests"}),  # it repairs what it does not name
    ],
)
def test_there_is_no_baseline_of_checks(step: PlannedStep, failure: Any, more: dict[str, Any]) -> None:
    plan = running(step, **more)

    plan.report(failure)

    assert "a-baseline" not in plan.states
    assert plan.steps["a"].failures == 1


@pytest.mark.parametrize(
    ("created", "added", "dropped"),
    [
        (["src/new.py"], ADDED, True),  # what the check looks at was there before
        (["src/a.py"], ADDED, False),
        (["src/new.py"], (), False),  # nobody knows what it created
    ],
)
def test_only_files_that_the_plan_created_are_not_compared(
    created: list[str], added: tuple[str, ...], dropped: bool
) -> None:
    first = patch("n", added=added).model_copy(update={"allowed_files": ("src/a.py", "src/new.py")})
    plan = running(first, a_step("m", "n"), patch("a", "m"))
    plan.report(a_report("n", touched_files=["src/a.py"], created_files=created))
    plan.report(a_report("m", touched_files=["src/m.py"], created_files=[]))

    plan.report(red(1))

    assert ("a-baseline" in plan.states) == dropped


@pytest.mark.parametrize(
    ("added", "said", "known"),
    [
        (ADDED, {"touched_files": ["src/a.py"]}, False),
        ((), {"touched_files": ["src/a.py"]}, False),
        ((), {}, False),
        ((), {"touched_files": ["src/a.py"], "created_files": []}, True),
        ((), {"touched_files": [], "nothing_to_change": "It is so already", "verify": ran(0, 0, 0)}, True),
    ],
)
def test_nothing_is_concluded_about_files_where_a_patch_did_not_say_what_it_created(
    added: tuple[str, ...], said: dict[str, Any], known: bool
) -> None:
    plan = running(patch("n", added=added), patch("a", "n"))
    plan.report(a_report("n", **said))

    plan.report(red(1))

    assert ("a-baseline" in plan.states) == known


def test_a_check_of_the_whole_project_needs_no_word_about_created_files() -> None:
    plan = running(whole("a"))

    plan.report(untold(red_whole("a")))

    assert list(plan.active) == ["a-baseline"]


def test_files_that_an_earlier_step_created_are_judged_and_whole_projects_still_compared() -> None:
    plan = running(a_step("n"), patch("a", "n"), whole("b", "n"), max_parallel=2)
    plan.report(a_report("n", touched_files=["src/n.py"], created_files=["src/n.py"]))

    plan.report(red(1))
    plan.report(red_whole("b"))

    assert ("a-baseline" in plan.states, "b-baseline" in plan.states) == (False, True)


def test_steps_that_run_the_same_share_what_is_known() -> None:
    plan = running(patch(), patch("b", "a"))
    plan.report(red(1))
    plan.report(base(1, 0))
    plan.report(a_report("a", touched_files=["src/a.py"], created_files=[]))

    plan.report(red(1, step="b"))

    assert [step for step in plan.states if "baseline" in step] == ["a-baseline"]
    assert [tool["tool"] for tool in plan.specs[-1]["verify_tools"]] == ["mypy", "pytest"]
    assert (plan.steps["b"].failures, plan.states["b"]) == (0, "ACTIVE")


@pytest.mark.parametrize("codes", [(2, 127), (127, 2), (2, 2)])
def test_a_step_that_fails_while_the_same_is_asked_for_another_has_a_baseline_of_its_own(
    codes: tuple[int, int],
) -> None:
    plan = running(whole("a"), whole("b"), whole("c", "a", "b"), max_parallel=4, consecutive_failures=2)

    plan.report(red_whole("a"))
    plan.report(red_whole("b"))
    assert sorted(plan.active) == ["a-baseline", "b-baseline"]
    assert plan.record.spent["failing_outcomes"] == 0
    for step, code in zip("ab", codes, strict=True):
        plan.report(base_whole(step, code))  # with 127 nobody knows by this one

    assert plan.record.spent["failing_outcomes"] == (codes[0] == 127)
    assert spec_of(plan, "b")["quick_checks"] == []


def test_a_check_is_asked_for_no_more_once_a_baseline_has_ended_without_an_answer() -> None:
    plan = running(patch(), patch("b", "a"))
    plan.report(red(1))
    plan.report(base(1))
    plan.report(a_report("a-auto-fix"))
    plan.report(a_report("a", touched_files=["src/a.py"], created_files=[]))

    plan.report(red(1, step="b"))

    assert "b-baseline" not in plan.states
    assert plan.steps["b"].failures == 1


def test_a_baseline_that_violates_halts_all_the_same() -> None:
    plan = running()
    plan.report(red(1))

    plan.report(base(1, 1, success=False, failure_evidence={"category": "SANDBOX_VIOLATION"}))

    assert (plan.state, plan.halt["rule"]) == ("HALTED", "security")


def test_a_baseline_of_a_risky_patch_waits_for_a_person_as_that_does() -> None:
    plan = running(patch(risk=RiskLevel.HIGH), approvals=["HIGH"])
    order(plan, "approve", "a")
    plan.report(red(1))

    assert list(plan.record.waits) == ["a-baseline"]
    order(plan, "approve", "a-baseline", order_id="o-2")
    plan.report(base(1, 0))
    assert list(plan.active) == ["a"]  # which a person has approved
