"""A plan's log is enough: folding what came in again, at its times, gives the same state, byte for byte.

Folded again are outcomes, orders, expiries, backoffs and outages, beside what stood around the plan at that time: what
held it (until the line that says otherwise), the day budgets that kept something back, and the attempts that nobody had
claimed. A queue without room is told by the lines of commits that changed something else beside (`full`); where it kept
back all that there was to do, the commit only set the timer anew and has no line, so it is none of the plan's history.
`read` says how far a ready queue was read that was longer. Only the timer is not compared: when the next look is due
hangs on leases, which are no inputs of the plan.
"""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from schemas.step import PlannedStep
from tasks.features.failed_changes import FailedDiff
from tasks.memory.flaky_tests import Recalled
from tasks.policy.flips import name_verification
from tests.support.any_plan import APPROVALS, DAY_TOKENS, DOINGS, LIMITS, an_order, drafts
from tests.support.plans import PLAN, Running, a_step, some_steps
from tests.support.replay import fold_again, run
from tests.support.surroundings import surrounded

NAME = name_verification({"verify_tools": [{"argv": ["pytest"]}]})
BORN = st.one_of(
    st.just({}),
    st.just({"requires_receipts": True}),
    st.just({"delivery": {"push": True}, "delivery_wait_s": 7200}),
    st.just({"base_sha": "a" * 40, "failed_diffs": (FailedDiff(NAME, "0" * 32, 1),)}),
    st.just({"base_sha": "a" * 40, "remembers_diffs": False}),
    st.just({"flaky_tests": Recalled(("tests/test_a.py::test_a",), ("1 old",))}),
    st.just({"remembers_flaky_tests": False}),
)


@example(
    steps=[a_step("s-0", tokens=1000), a_step("s-1", tokens=0), a_step("s-2", tokens=0)],
    limits={"max_parallel": 2},
    approvals=(),
    day_tokens=1000,
    doings=[("report", 0, {"success": True}, {})],
    born={},
)
@example(
    steps=[a_step("s-0", tokens=0), a_step("s-1", tokens=0), a_step("s-2", tokens=0), a_step("s-3", tokens=2)],
    limits={"max_parallel": 1},
    approvals=(),
    day_tokens=2500,
    doings=[  # its queue's pause is over while its day budget has to be asked first
        ("report", 0, {"success": True}, {}),
        ("report", 0, {"success": True}, {}),
        ("around", ("stand", ("pause", "queue"))),
        ("report", 0, {"success": True}, {"tokens_used": 2499}),
        ("around", ("lift", "queue")),
    ],
    born={},
)
@example(
    steps=[a_step(f"s-{number}", tokens=0) for number in range(3)],
    limits={"max_parallel": 1},
    approvals=(),
    day_tokens=None,
    doings=[  # its queue's pause is over while the queue is full
        ("around", ("stand", ("pause", "queue"))),
        ("around", ("queue", 0)),
        ("report", 0, {"success": True}, {}),
        ("around", ("lift", "queue")),
    ],
    born={},
)
@example(
    steps=[
        a_step("s-0", tokens=328),
        a_step("s-1", tokens=255),
        *(a_step(f"s-{number}", "s-0", tokens=373) for number in (2, 3, 4, 5)),
    ],
    limits={"max_parallel": 3},
    approvals=(),
    day_tokens=5000,
    doings=[  # a day budget that keeps back all there is to do has a line where it set the timer anew
        ("claim", 1),
        ("around", ("stand", ("pause", "queue"))),
        ("report", 0, {"success": True, "tests_passed": False}, {}),
        ("report", 0, {"success": False, "released": {"reason": "no such repository"}}, {}),
        ("report all", 3, {"success": True}, {}),
        ("around", ("lift", "queue")),
    ],
    born={},
)
@given(steps=drafts(), limits=LIMITS, approvals=APPROVALS, day_tokens=DAY_TOKENS, doings=DOINGS, born=BORN)
def test_the_log_folded_again_gives_the_same_plan(
    steps: list[PlannedStep],
    limits: dict[str, Any],
    approvals: tuple[str, ...],
    day_tokens: int | None,
    doings: list[Any],
    born: dict[str, Any],
) -> None:
    made = {"approvals": approvals, "day_tokens": day_tokens, **born, **limits}
    plan = surrounded(*steps, **made)
    run(plan, doings)

    fold_again(plan, surrounded(*steps, **made))


def test_what_is_in_flight_comes_in_the_order_of_the_line() -> None:
    steps = some_steps(4)
    plan = Running(*steps, max_parallel=4)
    plan.store.claim(PLAN, "s-1")
    active = plan.store.hash(plan.keys.active)
    for step in ("s-2", "s-0"):  # a server keeps a hash in no order
        active[step] = active.pop(step)

    plan.obey(an_order(1, ("halt", None), "s-0", plan.store.now))

    assert [move[0] for move in plan.log[-1]["moves"][::2]] == ["s-1", "s-3", "s-2", "s-0", ""]
    fold_again(plan, Running(*steps, max_parallel=4))
