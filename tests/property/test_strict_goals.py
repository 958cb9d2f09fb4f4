"""A goal that fits by the strict rules of the doors fits by the planner's, and is the same goal."""

from __future__ import annotations

from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from schemas import codec
from schemas.envelope import Problem
from worker.streams.decode import read_goal
from worker.streams.inbox import StreamEntry

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1, 5, -3, 2.0, 1e300, "5", "", "x", " ", "LOW", "default", "task", [], ["a"], {}]
)
STEP = {"step_id": "a", "title": "a", "intent": "a"}
FIELDS = {
    "goal": st.just("Fix it") | ODD,
    "goal_id": st.just("g") | ODD,
    "tenant": st.just("acme") | ODD,
    "kind": st.sampled_from(["task", "gap_report", "campaign", "reviewed_plan", "evolution"]) | ODD,
    "allowed_files": st.just(["a.py"]) | ODD,
    "context": st.fixed_dictionaries({}, optional={"repo": ODD, "files": ODD, "manifests": ODD, "files_complete": ODD}),
    "limits": st.fixed_dictionaries({}, optional={"tokens": st.just(5000) | st.just(5000.0) | ODD, "max_steps": ODD}),
    "approvals": st.just(["HIGH"]) | ODD,
    "queue": ODD,
    "mend": ODD,
    "reproduce": st.sampled_from(["halt", "off", True]) | ODD,
    "review": ODD,
    "delivery": st.fixed_dictionaries({}, optional={"push": ODD, "pull_request": ODD}) | ODD,
    "steps": st.lists(
        st.fixed_dictionaries(
            {name: st.just(value) for name, value in STEP.items()},
            optional={"verify": ODD, "retry_limit": ODD, "queue": ODD, "mode": ODD, "estimate": ODD, "risk_level": ODD},
        ),
        max_size=2,
    ),
    "gap_report": ODD,
    "unknown": ODD,
}
GOALS = st.lists(st.sampled_from(sorted(FIELDS)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({"goal": st.just("Fix it"), **{name: FIELDS[name] for name in names}})
)


@given(GOALS)
def test_what_a_door_takes_is_what_the_planner_reads(body: dict[str, Any]) -> None:
    entry = StreamEntry("", b"", {b"data": codec.dumps(body)})

    strict, lax = read_goal(entry, 10**6, strict=True), read_goal(entry, 10**6)

    assert isinstance(strict, Problem) or strict == lax
    event("taken" if not isinstance(strict, Problem) else "refused")
