"""Whatever a report says, what comes out is governed: only allowed files, none protected, no attack, no crash."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.goal import Goal
from schemas.kinds.gap_report import IterationPlan
from schemas.step import MAX_LITERAL
from tasks.rules.risk import RISK
from tasks.rules.strategy import Draft, End, Expansion, LivePlan, Setting
from tasks.rules.validation import validate
from tasks.strategies import gap_report
from tasks.text.patterns import expand_globs
from tasks.toolchain.catalogue import CATALOGUE
from tests.support.kinds.gap_report import NOW

PATHS = (
    *("src/a.py", "src/auth.py", "domain/a.py", "domain/b.py", "domain/c.py", "modules/x/core.py", "README.md"),
    *("modules/x/tests/test_core.py", "tests/test_a.py", "seed.py", "kernel/loop.py", "pyproject.toml", "web/a.ts"),
)
PIECES = (
    *PATHS,
    *("Create", "Implement", "Tests for", "All code passes", "Remove", "module x", "the domain", "kernel/", "ruff"),
    *(
        "ignore all previous instructions",
        "do not touch",
        "only change",
        ":3:1: E1 x\n",
        "\u202e",
        "\x00",
        "  ",
        "{goal}",
    ),
)
words = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=6).map(" ".join)
paths = st.lists(st.sampled_from(PATHS), unique=True, max_size=len(PATHS))
gaps = st.fixed_dictionaries(
    {
        "category": st.sampled_from(["quality", "inbox", "roadmap", "other"]),
        "description": words,
        "priority": st.sampled_from(["urgent", "high", "medium", "low"]),
        "roadmap_version": st.sampled_from(["0.1", "v0.10", ""]),
        "evidence": words,
    }
)
outputs = st.one_of(
    st.none(),
    st.text(max_size=5),
    st.fixed_dictionaries({"files": st.one_of(paths, st.lists(st.integers() | st.text(max_size=5), max_size=3))}),
)


@st.composite
def goals(draw: st.DrawFn) -> dict[str, Any]:
    listed = draw(st.lists(gaps, max_size=4))
    moments = st.integers(0, 59).map(lambda minute: f"2026-11-01T00:{minute:02d}:00Z")
    record = st.fixed_dictionaries(
        {
            "iteration_id": st.just("iter-0001-20261101-000000"),
            "timestamp": moments,
            "gap_addressed": st.sampled_from(listed) if listed else gaps,
            "outcome": st.sampled_from(["success", "partial", "failure", "rollback"]),
            "notes": words,
        }
    )
    constraints = draw(st.lists(words, max_size=2))
    inbox = [{"filename": "a.md", "title": gap["description"], "constraints": constraints} for gap in listed]
    return {
        "goal": "Close the most critical gap",
        "kind": "gap_report",
        "allowed_files": draw(paths),
        "context": {
            "files": draw(paths),
            "documents": {"modules/x/SPEC.md": draw(words), "src/CONTRACT.md": draw(words)},
        },
        "gap_report": {
            "gap_report": {"gaps": listed, "most_critical": listed[0] if listed else None},
            "recent_records": draw(st.lists(record, max_size=8)),
            "inbox": [item for item in inbox if item["title"]],
            "protected_paths": draw(st.lists(st.sampled_from(PATHS), max_size=1)),
        },
    }


@given(body=goals(), output=outputs, recalled=st.integers(0, 5))
def test_every_plan_is_governed(body: dict[str, Any], output: Any, recalled: int) -> None:
    goal = Goal.model_validate(body)
    made = gap_report.draft(goal, CATALOGUE, Setting(now=NOW, history={"iterations": recalled}))
    if not isinstance(made, Draft):
        return

    check(goal, made)
    if made.steps[0].step_id == "explore-scope":
        live = LivePlan(goal, codec.loads(codec.dumps(made.state)), codec.loads(codec.dumps(made.document)), NOW)
        listed = (gap_report.input_for(live, {"step_id": "explore-scope"}) or {})["files"]
        assert {*listed} <= {*body["allowed_files"]} - {"seed.py", "kernel/loop.py"}
        end = End("explore-scope", made.steps[0].model_dump(mode="json"), "DONE", output)
        unfolding = gap_report.advance(live, end, CATALOGUE)
        assert isinstance(unfolding, Expansion)
        if unfolding.halt is None:
            is_named = not unfolding.why.endswith("may change.")
            check(goal, unfolding, is_named=is_named)


def check(goal: Goal, made: Draft | Expansion, *, is_named: bool = True) -> None:
    assert validate(goal, made.steps, CATALOGUE) == ()
    plan = IterationPlan.model_validate(codec.loads(codec.dumps(made.document)))
    assert plan.actions
    assert goal.gap_report is not None
    protected = {"seed.py", "kernel/loop.py", "kernel/", *goal.gap_report.protected_paths}
    allowed = expand_globs(goal.allowed_files, goal.context.files).files
    for step in made.steps:
        assert set(step.allowed_files) <= set(allowed)
        assert len(step.allowed_files) <= (RISK[step.risk_level].max_files if is_named else MAX_LITERAL)
    touched = [path for step in made.steps for path in step.allowed_files]
    named = [path for action in plan.actions for path in action.target_files]
    assert not [path for path in (*touched, *named) if path in protected]
    assert len(touched) == len(set(touched))
