"""The six invariants of reviewed plans."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import GoalKind
from schemas.kinds.reviewed_plan_files import Severity
from tasks.strategies import reviewed_plan
from tasks.strategies.registry import strategy_of
from tasks.strategies.reviewed_plan import gate
from tests.support.kinds.reviewed_plan import Play, a_goal, a_plan, begin, failing, good, op, overview, run

MUST, SHOULD, COULD = Severity


def test_1_every_kind_has_exactly_one_strategy() -> None:
    assert strategy_of(GoalKind.REVIEWED_PLAN) is reviewed_plan
    assert {"draft", "refusal", "input_for", "advance", "answer", "stuck"} <= set(reviewed_plan.__all__)


@pytest.mark.parametrize("kind", GoalKind)
def test_2_discovery_finds_strategies_without_import_errors(kind: GoalKind) -> None:
    found = strategy_of(kind)

    assert found is None or callable(found.draft)


def test_3_plan_json_is_enough_to_execute() -> None:
    planned = run(begin(a_goal("both")), until="impl-execute")
    executed = begin(a_goal("execute", plan=planned.plan))

    assert {name: planned.facts(name) for name in planned.open} == {
        name: executed.facts(name) for name in executed.open
    }
    assert planned.given("impl-m-001") == executed.given("impl-m-001")


def test_4_a_frozen_plan_never_changes() -> None:
    seen: list[Any] = []

    def role(play: Play, step_id: str) -> Any:
        if play.plan["frozen_at"]:
            seen.append(play.plan)
            assert play.refusal(step_id, {"operations": [overview(2)]}) is not None
        return good(play, step_id)

    play = run(begin(a_goal()), role)

    assert len(seen) >= 5
    assert all(plan == play.plan for plan in seen)


def test_4_even_a_row_that_writes_is_refused_once_the_plan_is_frozen() -> None:
    play = run(begin(a_goal("plan")), until="plan-code-execute")
    play.document["plan"]["frozen_at"] = "2026-01-01T00:00:00.000Z"

    for operations in ([op("add", "code_change", {})], []):
        why = play.refusal("plan-code-execute", {"operations": operations}) or ""
        assert why.startswith("frozen: ")


def test_4_the_plan_is_frozen_at_the_last_gate_of_planning_and_not_before() -> None:
    play = run(begin(a_goal("plan")), until="plan-docs-qr")
    assert play.plan["frozen_at"] is None

    run(play)
    assert play.plan["frozen_at"] == "2026-09-21T14:13:20.000Z"
    assert (play.phases[-1].name, play.phases[-1].status) == ("plan.json", "frozen at 2026-09-21T14:13:20.000Z")


def test_4_context_is_frozen_after_step_2() -> None:
    play = begin(a_goal())
    before = play.document["context"]

    assert run(play).document["context"] == before


def test_5_qr_files_live_until_their_gate_passes() -> None:
    seen: dict[str, set[str]] = {}

    def role(play: Play, step_id: str) -> Any:
        seen[step_id] = set(play.document["qr"])
        return failing_once(play, step_id)

    failing_once = failing(plan_design=1, impl_code=1)
    play = run(begin(a_goal()), role)

    assert seen["plan-design-execute"] == set()
    assert seen["plan-design-qr"] == seen["plan-design-execute-r2"] == seen["plan-design-qr-r2"] == {"plan-design"}
    assert seen["plan-code-execute"] == set()
    assert seen["impl-m-001-r2"] == {"impl-code"}
    assert play.document["qr"] == {}
    assert len(play.document["gate_history"]) == 7


@pytest.mark.parametrize(
    ("iteration", "blocks"),
    [
        (1, (MUST, SHOULD, COULD)),
        (2, (MUST, SHOULD, COULD)),
        (3, (MUST, SHOULD)),
        (4, (MUST, SHOULD)),
        (5, (MUST,)),
        (6, (MUST,)),
        (99, (MUST,)),
    ],
)
def test_6_what_blocks_hangs_on_the_iteration(iteration: int, blocks: tuple[Severity, ...]) -> None:
    assert gate.severities_at(gate.SCHEDULES["seed"], iteration) == blocks


def test_a_supplied_plan_stays_as_it_was_supplied() -> None:
    plan = a_plan()

    assert run(begin(a_goal("execute", plan=plan))).plan == plan
