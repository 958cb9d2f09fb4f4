"""What nothing verifies in a plan, as its explanation says."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import Mode
from schemas.step import PlannedStep
from tasks.features.unverified import Planned, describe_unverified
from tasks.rules.strategy import Draft, Setting
from tasks.strategies.task import draft
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.plans import a_check, a_goal, a_step

DOCS = "No step verifies docs/a.md."
NO_TESTS = "No step runs tests."
COMPILE, RUFF = CATALOGUE.match("python -m py_compile src/a.py"), CATALOGUE.match("ruff check .")
OF_A = CATALOGUE.match("pytest tests/test_a.py")


def told(*steps: PlannedStep, states: Any = None, verified: Any = None) -> str | None:
    states, verified = states or {}, verified or {}
    planned = [
        Planned(step.model_dump(mode="json"), states.get(step.step_id, "DONE"), verified.get(step.step_id))
        for step in steps
    ]
    return describe_unverified(planned, CATALOGUE)


def inserted(step: PlannedStep) -> PlannedStep:
    return step.model_copy(update={"inserted_by": "a"})


@pytest.mark.parametrize(
    ("steps", "more", "sentence"),
    [
        ([a_step("a"), a_check("t", "a")], {}, None),
        ([a_step("a"), a_step("b", "a"), a_check("t", "b")], {}, None),
        ([a_step("a"), a_check("t", "a")], {"states": {"a": "ACTIVE", "t": "BLOCKED"}}, None),
        ([a_step("a"), a_check("t")], {}, "No step verifies src/a.py."),  # the test did not wait for it
        ([a_step("a")], {}, f"No step verifies src/a.py. {NO_TESTS}"),
        ([a_step("a", tools=(COMPILE,))], {}, NO_TESTS),
        ([a_step("a", tools=(RUFF,))], {}, NO_TESTS),
        ([a_step("a", files=["src/a.py", "tests/test_a.py"], tools=(OF_A,))], {}, None),
        (
            [a_step("a", files=["src/a.py", "src/b.py", "tests/test_a.py"], tools=(OF_A,))],
            {},
            "No step verifies src/b.py.",
        ),
        ([a_step("a", files=["src/a.py", "docs/a.md"], tools=(OF_A,))], {}, DOCS),
        ([a_step("a", files=["src/a.py", "docs/a.md"], tools=(COMPILE,)), a_check("t", "a")], {}, DOCS),
        ([a_step("a", files=["docs/a.md"]), a_check("t", "a")], {}, DOCS),  # no test reads it
        ([a_step("a", files=["docs/a.md"])], {}, f"{DOCS} {NO_TESTS}"),
        ([a_step("a"), a_check("t", "a")], {"states": {"t": "SKIPPED"}}, f"No step verifies src/a.py. {NO_TESTS}"),
        ([a_step("a"), a_check("t", "a")], {"verified": {"t": False}}, f"No step verifies src/a.py. {NO_TESTS}"),
        ([a_step("a"), inserted(a_check("a-baseline", "a"))], {}, f"No step verifies src/a.py. {NO_TESTS}"),
        ([a_step("a"), a_check("t", "a")], {"states": {"a": "SKIPPED", "t": "DONE"}}, None),
        ([a_step("a")], {"states": {"a": "HALTED"}}, None),  # nothing of it landed
        (
            [a_step("a", files=[f"docs/{n}.md" for n in range(7)]), a_check("t", "a")],
            {},
            "No step verifies docs/0.md, docs/1.md, docs/2.md, docs/3.md, docs/4.md and 2 more.",
        ),
        ([a_check("t")], {}, None),
    ],
)
def test_what_nothing_verifies_is_said(steps: list[PlannedStep], more: Any, sentence: str | None) -> None:
    assert told(*steps, **more) == sentence


@pytest.mark.parametrize(
    ("text", "files", "context", "sentence"),
    [
        ("Document the setup", ["docs/a.md"], {}, f"{DOCS} {NO_TESTS}"),
        ("Upgrade requests to 3.0", ["requirements.txt"], {"language": "python"}, None),
        ("Upgrade requests to 3.0", ["requirements.txt", "docs/a.md"], {"language": "python"}, None),
        ("Make it nicer", ["src/a.py", "docs/a.md"], {}, DOCS),
        ("Make it nicer", ["src/a.py"], {}, None),
    ],
)
def test_it_is_said_of_what_templates_make(text: str, files: list[str], context: Any, sentence: str | None) -> None:
    goal = a_goal(sentence=text, files=files)
    goal = goal.model_copy(update={"context": goal.context.model_copy(update=context)})
    made = draft(goal, CATALOGUE, Setting())

    assert isinstance(made, Draft)
    assert any(step.mode is Mode.PATCH for step in made.steps)
    assert told(*made.steps) == sentence
