"""A gate that never passes and a person who never answers: the plan ends at the deadline of its question."""

from __future__ import annotations

import pytest

from schemas.command import Command
from tasks.policy.waits import APPROVAL_MS
from tasks.rules.strategy import Draft
from tests.support.kinds.reviewed_plan import DESIGN, FAIL, FILES, a_goal, drafted
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running, a_report

DAY_MS = 86_400_000


@pytest.fixture
def stuck() -> Running:
    """A plan in the core itself, as the gate of its design asks a person."""
    made = drafted(a_goal("plan", max_iterations=1))
    assert isinstance(made, Draft)
    draft = {"state": made.state, "document": made.document}
    plan = Running(*made.steps, draft=draft, store=MemoryStore(PARTITION), kind="reviewed_plan", files=FILES)
    plan.report(a_report("plan-design-execute", output={"operations": DESIGN}))
    plan.report(a_report("plan-design-qr", output={"items": [FAIL]}))
    assert plan.record.question is not None
    return plan


def test_nobody_answers_in_time(stuck: Running) -> None:
    stuck.store.wait(APPROVAL_MS - 1)
    stuck.sweep()
    assert stuck.state == "EXECUTING"  # the wall clock of 24 hours stands still meanwhile

    stuck.store.wait(1)
    stuck.sweep()

    assert (stuck.state, stuck.halt["rule"]) == ("HALTED", "answer_deadline")
    assert stuck.halt["evidence"]["questions"][0].startswith("The gate plan-design-qr-gate does not pass")
    assert stuck.record.question is None


def test_the_last_moment_is_early_enough(stuck: Running) -> None:
    stuck.store.wait(APPROVAL_MS - 1)
    said = {"command_id": "o-1", "command": "answer", "scope": "plan", "plan_id": stuck.plan_id}
    stuck.obey(Command.model_validate({**said, "actor": "ada", "reason": "why", "value": "continue"}))

    stuck.store.wait(DAY_MS // 2)
    stuck.sweep()

    assert stuck.state == "EXECUTING"
    assert stuck.states["plan-design-execute-r2"] == "ACTIVE"
