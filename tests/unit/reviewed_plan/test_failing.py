"""A role whose every answer is refused, through the core: its step fails for good, and the report says so."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tasks.rules.strategy import Draft
from tests.support.kinds.reviewed_plan import DESIGN, FILES, a_goal, begin, drafted
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running, a_report

KIND: dict[str, Any] = {"kind": "reviewed_plan", "files": FILES, "repo": "acme/shop"}
NO_USE = {"operations": "none"}


def running(**limits: Any) -> Running:
    answer = drafted(a_goal("plan", limits=limits))
    assert isinstance(answer, Draft)
    draft = {"state": answer.state, "document": answer.document}
    default = {"consecutive_failures": None, "identical_failures": None}
    return Running(*answer.steps, store=MemoryStore(PARTITION), draft=draft, **KIND, **(default | limits))


def answers(plan: Running, step_id: str, output: Any) -> None:
    assert plan.report(a_report(step_id, output=output, diff_hash=f"x-{plan.record.version}")) == ["applied"]
    plan.rest()


def document(plan: Running) -> Any:
    return codec.loads(plan.store.hash(plan.keys.plan)["strategy_state"])["document"]


@pytest.mark.parametrize(("limit", "attempts"), [(None, 2), (5, 3), (4, 3), (3, 2), (2, 1), (50, 3)])
@pytest.mark.parametrize("step_id", ["plan-design-execute", "plan-design-qr"])
def test_a_role_that_keeps_failing_ends_in_the_report(step_id: str, limit: int | None, attempts: int) -> None:
    plan = running(**({"consecutive_failures": limit} if limit else {}))
    if step_id == "plan-design-qr":
        answers(plan, "plan-design-execute", {"operations": list(DESIGN)})

    for _ in range(attempts):
        assert plan.states[step_id] in ("ACTIVE", "PENDING")
        answers(plan, step_id, NO_USE)

    assert plan.halt["rule"] == "planning_failed"
    assert plan.states[step_id] == "FAILED"
    told = plan.halt["evidence"]
    assert (told["step_id"], told["attempts"]) == (step_id, attempts)
    assert [error["code"] for error in told["errors"]] == ["invalid"]
    assert "Allowed: an object like {" in told["errors"][0]["message"]
    report = document(plan)["report"]
    assert (report["status"], report["summary"]) == ("BLOCKED", f"{step_id} did not succeed.")


def test_the_steps_of_a_later_row_leave_room_for_the_report_as_well() -> None:
    play = begin(a_goal("plan", limits={"consecutive_failures": 2}))
    play.end("plan-design-execute", {"operations": list(DESIGN)})

    assert play.open["plan-design-qr"].retry_limit == 0
