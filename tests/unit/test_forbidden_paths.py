"""Which paths no goal may allow is a setting: it counts where a goal comes in; plans in flight keep what they have."""

from __future__ import annotations

from typing import Any, cast

import pytest

from schemas.goal import Goal
from tasks.handlers.goals import plan
from tasks.rules.strategy import Answer, Draft, End, Expansion, LivePlan, Rejected, Setting
from tasks.rules.validation import validate
from tasks.strategies.task import advance
from tasks.toolchain.catalogue import CATALOGUE
from worker.drafters.consulting import Consulting
from worker.settings.settings import WrongSettings, load

CONTEXT = {"language": "python", "test_command": "pytest -q"}
NOBODY = cast("Any", None)  # no server is asked


def setting_of(goal: Goal) -> Setting:
    setting = Consulting(NOBODY, load()).setting(goal)
    assert isinstance(setting, Setting)
    return setting


def a_goal(*allowed: str, **fields: Any) -> Goal:
    told = {
        "goal": "Fix the login",
        "allowed_files": list(allowed),
        "context": {**CONTEXT, **fields.pop("context", {})},
    }
    return Goal.model_validate(told | fields)


def planned(goal: Goal) -> Answer:
    return plan(goal, setting=setting_of(goal))


def files_of(answer: Answer) -> set[str]:
    assert isinstance(answer, Draft), answer
    return {path for step in answer.steps for path in step.allowed_files}


def codes(answer: Answer) -> list[tuple[str, str]]:
    assert isinstance(answer, Rejected), answer
    return [(error.pointer, error.code) for error in answer.errors]


@pytest.mark.parametrize("path", [".npmrc", "certs/a.pem", "safety/rules.py", ".KUBE/config", "-x.py", "a/.netrc"])
def test_a_goal_that_allows_a_forbidden_path_is_rejected_with_its_place(path: str) -> None:
    assert codes(planned(a_goal("src/a.py", path))) == [("/allowed_files/1", "forbidden_path")]


def test_an_operator_forbids_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_ALSO_FORBIDDEN_PATHS", "*.tfvars, infra/")

    assert codes(planned(a_goal("infra/a.py", "x.TFVARS", ".npmrc"))) == [
        ("/allowed_files/0", "forbidden_path"),
        ("/allowed_files/1", "forbidden_path"),
        ("/allowed_files/2", "forbidden_path"),
    ]


def test_an_operator_puts_a_list_in_the_place_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_FORBIDDEN_PATHS", "*.tfvars")

    assert files_of(planned(a_goal("src/a.py", ".env.example", "tests/a.pem"))) == {
        *("src/a.py", ".env.example", "tests/a.pem")
    }
    assert codes(planned(a_goal("a.tfvars", ".git/config"))) == [
        ("/allowed_files/0", "forbidden_path"),
        ("/allowed_files/1", "forbidden_path"),
    ]


def test_a_supplied_step_is_judged_by_the_same_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_FORBIDDEN_PATHS", "*.tfvars")
    step = {
        "step_id": "a",
        "title": "A",
        "intent": "Do it",
        "allowed_files": [".npmrc", "a.tfvars"],
        "verify": "pytest",
    }

    answer = planned(a_goal(".npmrc", steps=[step]))

    assert codes(answer) == [("/steps/0/allowed_files/1", "forbidden_path")]


@pytest.mark.parametrize("kind", ["task", "drafted"])
def test_a_glob_never_reaches_what_an_operator_forbids(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_ALSO_FORBIDDEN_PATHS", "b.py")
    goal = a_goal("src/*", context={"files": ["src/a.py", "src/b.py", "src/.npmrc"]})

    answer = planned(goal) if kind == "task" else planned(goal.model_copy(update={"drafter": "queue"}))

    assert isinstance(answer, Draft)
    assert answer.goal is not None
    assert answer.goal.context.files == ("src/a.py",)
    assert files_of(answer) <= {"src/a.py"}


def test_a_plan_in_flight_keeps_its_allowlist_whatever_is_forbidden_since(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_FORBIDDEN_PATHS", "*.tfvars")
    goal = a_goal("src/a.py", ".npmrc", drafter="queue")
    answer = planned(goal)
    assert isinstance(answer, Draft)
    assert answer.state is not None
    monkeypatch.delenv("PLANNER_FORBIDDEN_PATHS")
    step = {"id": "one", "title": "Do it", "intent": "So that it is done", "files": [".npmrc"]}
    end = End("draft-plan", {"step_id": "draft-plan"}, "DONE", {"summary": "Do it", "steps": [step]})

    unfolded = advance(LivePlan(goal, answer.state, answer.document, 0), end, CATALOGUE)

    assert isinstance(unfolded, Expansion)
    assert {path for each in unfolded.steps for path in each.allowed_files} == {".npmrc"}
    assert [error.code for error in validate(goal, unfolded.steps)] != []  # as a new goal it would be refused


def test_a_name_that_cannot_be_forbidden_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_ALSO_FORBIDDEN_PATHS", "ok/,/etc/passwd")

    with pytest.raises(WrongSettings, match=r"^PLANNER_ALSO_FORBIDDEN_PATHS: .*'/etc/passwd' is no name of a file"):
        load()
