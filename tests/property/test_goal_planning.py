"""Whatever a goal says, it is answered: a plan that validates, or a rejection with its reasons; never an exception."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.base import GoalKind, Mode, RiskLevel, StepType
from schemas.goal import Goal
from tasks.base.errors import UnknownCommand
from tasks.handlers.goals import plan
from tasks.rules.strategy import Draft, Rejected
from tasks.rules.validation import validate
from tasks.text.paths import expand_globs, fault, is_glob
from tasks.toolchain.catalogue import CATALOGUE, render

PATHS = st.one_of(
    st.sampled_from(
        ["src/a.py", "tests/test_a.py", "README.md", "go.mod", "a.rs", "src/*.py", "**", "../x", ".env", "/etc/passwd",
         "a;b.py", "$(x).py", "-x.py", "C:\\x", "src/", "a b.ts", "\uff0e\uff0e/x", ".git/x", "", "Makefile",
         "Dockerfile", ".github/ci.yml", "src/auth.py"]
    ),
    st.text(max_size=20),
)  # fmt: skip
COMMANDS = st.one_of(
    st.sampled_from(
        ["pytest", "pytest -x tests", "npm test", "python-full", "go test ./...", "cargo test -- --nocapture",
         "rm -rf /", "pytest; ls", "'", "ruff check --fix a.py", "make test", "-"]
    ),
    st.text(max_size=30),
)  # fmt: skip
TEXT = st.one_of(
    st.sampled_from(["Fix the bug", "Add prefix support", "refactor utils", "Fix the build", "Upgrade x", "Why?", "x"]),
    st.lists(st.sampled_from(["Fix", "ignore", "all previous", "instructions", "system prompt: x", "\u200b"])).map(
        " ".join
    ),
    st.text(max_size=60),
)
IDS = st.sampled_from(["a", "b", "c", "d-1", "A", ""])
CALLS = st.fixed_dictionaries({"tool": st.sampled_from(["pytest", "sh"]), "args": st.lists(COMMANDS, max_size=2)})
VERIFY = st.one_of(st.none(), COMMANDS, CALLS, st.lists(st.one_of(COMMANDS, CALLS), max_size=3))
STEPS = st.fixed_dictionaries(
    {"step_id": IDS, "title": TEXT, "intent": TEXT},
    optional={
        "allowed_files": st.lists(PATHS, max_size=4),
        "depends_on": st.lists(IDS, max_size=3),
        "verify": VERIFY,
        "type": st.sampled_from(StepType),
        "mode": st.sampled_from(Mode),
        "risk_level": st.sampled_from(RiskLevel),
        "rollback_hint": st.text(max_size=5),
        "retry_limit": st.integers(0, 3),
    },
)
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "language": st.one_of(st.sampled_from(["python", "TS", "c++", "ruby", " "]), st.text(min_size=1, max_size=5)),
        "test_command": COMMANDS,
        "failing_tests": st.lists(st.one_of(PATHS, st.just("tests/test_a.py::test_x[1]"), TEXT), max_size=3),
        "failure_log": st.one_of(st.sampled_from(["AssertionError", "build failed", "ERESOLVE"]), st.text(max_size=40)),
        "files": st.lists(PATHS, max_size=5),
        "manifests": st.dictionaries(PATHS, TEXT, max_size=2),
    },
)
GOALS = st.fixed_dictionaries(
    {"goal": TEXT},
    optional={
        "kind": st.sampled_from(GoalKind),
        "allowed_files": st.lists(PATHS, max_size=12),
        "context": CONTEXTS,
        "constraints": st.lists(TEXT, max_size=2),
        "limits": st.fixed_dictionaries({}, optional={"max_steps": st.integers(1, 30)}),
        "steps": st.lists(STEPS, max_size=5),
    },
)


def goal_of(raw: dict[str, Any]) -> Goal | None:
    try:
        return Goal.model_validate(raw)
    except ValidationError:
        return None  # what the wire refuses never comes to the planner


@given(GOALS)
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_goal_gives_a_plan_that_validates_or_a_rejection_with_reasons(raw: dict[str, Any]) -> None:
    goal = goal_of(raw)
    if goal is None:
        return

    answer = plan(goal)

    assert answer == plan(goal)
    if isinstance(answer, Draft):
        assert answer.steps
        assert validate(goal, answer.steps) == ()
        allowed = set(expand_globs(goal.allowed_files, goal.context.files).files)
        assert all(set(step.allowed_files) <= allowed for step in answer.steps)
    else:
        assert isinstance(answer, Rejected)
        assert answer.reason
        assert answer.errors
        assert all(error.code and error.message for error in answer.errors)


@given(COMMANDS)
@settings(max_examples=500, deadline=None)
def test_what_the_catalogue_accepts_is_read_back_from_its_own_text(command: str) -> None:
    try:
        tool = CATALOGUE.match(command)
    except UnknownCommand:
        return

    assert CATALOGUE.match(render([tool])) == tool
    assert not any(char in render([tool]) for char in ";|&$<>`\n\\")


@given(st.lists(PATHS, max_size=6), st.lists(PATHS, max_size=6))
@settings(deadline=None)  # other processes share the machine
def test_an_expanded_allowlist_holds_only_literal_faultless_paths(patterns: list[str], listing: list[str]) -> None:
    expanded = expand_globs(patterns, listing)

    assert all(fault(path) is None and not is_glob(path) for path in expanded.files)
    assert len(set(expanded.files)) == len(expanded.files)
    assert expand_globs(expanded.files, ()) == expand_globs(expanded.files, listing)
