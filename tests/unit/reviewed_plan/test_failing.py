"""A role whose every answer is refused, through the core: its step fails for good, and the report says so."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tasks.rules.strategy import Draft
from tests.support.kinds.reviewed_plan import DESIGN, FILES, a_goal, drafted
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


@pytest.mark.parametrize("limit", [None, 2, 50])
@pytest.mark.parametrize("step_id", ["plan-design-execute", "plan-design-qr"])
def test_a_role_is_asked_three_times_whatever_the_limit_of_failures_in_a_row_and_ends_in_the_report(
    step_id: str, limit: int | None
) -> None:
    plan, attempts = running(**({"consecutive_failures": limit} if limit else {})), 3
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
