"""The workflow as a table: every row, every route, every role; and what a step of each row says."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.kinds.reviewed_plan_answers import ENTITIES
from schemas.kinds.reviewed_plan_files import LoopState, QrPhase
from schemas.step import PlannedStep
from tasks.strategies.reviewed_plan.material import READERS
from tasks.strategies.reviewed_plan.workflow import EXECUTION, PLANNING, ROWS
from tests.support.kinds.reviewed_plan import (
    ANSWERS,
    DESIGN,
    FAIL,
    PASS,
    Play,
    a_goal,
    begin,
    change,
    failing,
    good,
    op,
    run,
    written,
)

# number, name, role, where pass and fail lead
TABLE = [
    (1, "plan-init", None, "context-verify", None),
    (2, "context-verify", None, "plan-design-execute", None),
    (3, "plan-design-execute", "architect", "plan-design-qr", None),
    (4, "plan-design-qr", "quality-reviewer", "plan-design-qr-gate", None),
    (5, "plan-design-qr-gate", None, "plan-code-execute", "plan-design-execute"),
    (6, "plan-code-execute", "developer", "plan-code-qr", None),
    (7, "plan-code-qr", "quality-reviewer", "plan-code-qr-gate", None),
    (8, "plan-code-qr-gate", None, "plan-docs-execute", "plan-code-execute"),
    (9, "plan-docs-execute", "technical-writer", "plan-docs-qr", None),
    (10, "plan-docs-qr", "quality-reviewer", "plan-docs-qr-gate", None),
    (11, "plan-docs-qr-gate", None, "init", "plan-docs-execute"),
    (1, "init", None, "load-verify", None),
    (2, "load-verify", None, "impl-execute", None),
    (3, "impl-execute", "developer", "impl-code-qr", None),
    (4, "impl-code-qr", "quality-reviewer", "impl-code-qr-gate", None),
    (5, "impl-code-qr-gate", None, "impl-docs-execute", "impl-execute"),
    (6, "impl-docs-execute", "technical-writer", "impl-docs-qr", None),
    (7, "impl-docs-qr", "quality-reviewer", "impl-docs-qr-gate", None),
    (8, "impl-docs-qr-gate", None, "reconcile", "impl-docs-execute"),
    (9, "reconcile", "quality-reviewer", None, None),
]
PHASES = [phase.value for phase in QrPhase]


def test_the_table_is_the_seeds() -> None:
    rows = [row.brief for row in (*PLANNING, *EXECUTION)]

    assert [(each.number, each.name, each.role, each.ahead, each.back) for each in rows] == TABLE
    assert list(ROWS) == [name for _, name, *_ in TABLE]


def test_every_row_reads_and_writes_what_there_is() -> None:
    writers = {name: set(row.brief.writes) for name, row in ROWS.items() if row.brief.writes}

    assert writers.keys() == {"plan-design-execute", "plan-code-execute", "plan-docs-execute"}
    assert writers["plan-code-execute"] == {"code_change"}
    assert writers["plan-docs-execute"] == {"documentation"}
    assert set().union(*writers.values()) == set(ENTITIES)
    assert sum(map(len, writers.values())) == len(ENTITIES)
    assert all(set(row.brief.reads) <= set(READERS) for row in ROWS.values())


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.brief.role])
def test_every_row_with_a_role_says_what_to_do_within_the_limit(name: str) -> None:
    brief = ROWS[name].brief

    assert brief.title
    assert brief.checklist
    assert 50 < len(brief.guidance) < 600
    assert len(brief.guidance) + len("; ".join(brief.checklist)) < 1000


def test_a_workflow_without_faults_takes_every_row_once() -> None:
    play = run(begin(a_goal()))

    assert play.order == [
        *("plan-design-execute", "plan-design-qr", "plan-code-execute", "plan-code-qr"),
        *("plan-docs-execute", "plan-docs-qr", "impl-m-001", "test-wave-1", "impl-m-002", "test-wave-2"),
        *("impl-code-qr", "impl-docs-execute", "impl-docs-qr", "reconcile"),
    ]
    assert [phase.name for phase in play.phases if phase.name in ROWS] == [
        name for name in list(ROWS) for _ in range(2 if name in ("impl-execute", "reconcile") else 1)
    ]
    assert play.document["report"]["status"] == "COMPLETED"


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fails", [1, 2, 4])
def test_a_fail_leads_back_to_the_work_and_a_pass_ahead(phase: str, fails: int) -> None:
    play = run(begin(a_goal()), failing(**{phase.replace("-", "_"): fails}))

    history = [record for record in play.document["gate_history"] if record["phase"] == phase]
    assert [(record["iteration"], record["verdict"]) for record in history] == [
        *((number, "FAIL") for number in range(1, fails + 1)),
        (fails + 1, "PASS"),
    ]
    assert len(play.document["gate_history"]) == 5 + fails
    for number in range(2, fails + 2):
        review = play.order.index(f"{phase}-qr-r{number}")
        earlier = play.order.index(f"{phase}-qr-r{number - 1}" if number > 2 else f"{phase}-qr")
        work = [name for name in play.order[earlier + 1 : review] if name.endswith(f"-r{number}")]
        assert work
    assert play.document["report"]["status"] == "COMPLETED"


@pytest.mark.parametrize("iteration", range(1, 6))
@pytest.mark.parametrize("severity", ["MUST", "SHOULD", "COULD"])
def test_what_fails_blocks_by_severity_and_iteration(severity: str, iteration: int) -> None:
    play = begin(a_goal("plan"))
    blocks = {"COULD": 2, "SHOULD": 4, "MUST": 99}[severity] >= iteration

    def role(play: Play, step_id: str) -> Any:
        if play.row != "plan-design-qr":
            return good(play, step_id)
        now = play.state["loops"]["plan-design"]["iteration"]
        status = {**FAIL, "severity": severity} if now == iteration else {**PASS, "severity": severity}
        guard = FAIL if now < iteration else PASS  # another item that keeps the gate shut until then
        return {"items": [status, {**guard, "id": "qa-002"}]}

    run(play, role)

    history = [record for record in play.document["gate_history"] if record["phase"] == "plan-design"]
    assert history[iteration - 1]["verdict"] == ("FAIL" if blocks else "PASS")
    assert len(history) == iteration + blocks


def test_the_loop_of_each_gate_is_kept() -> None:
    play = begin(a_goal("plan"))
    assert play.state["loops"]["plan-design"]["state"] == LoopState.INITIAL

    run(play, failing(plan_design=1), until="plan-code-execute")
    assert play.state["loops"]["plan-design"] == {"state": "COMPLETE", "iteration": 2, "limit": 6, "continued": 0}
    assert play.state["loops"]["plan-code"]["state"] == "INITIAL"


def test_the_work_after_a_fail_is_told_what_failed() -> None:
    play = run(begin(a_goal("plan")), failing(plan_code=1), until="plan-code-qr")
    play.end("plan-code-qr", {"items": [FAIL, {**PASS, "id": "qa-002"}]})

    step = play.open["plan-code-execute-r2"]
    assert "Failed: qa-001 MUST It is right: It is wrong" in (step.guidance or "")
    assert "qa-002" not in (step.guidance or "")
    assert (step.guidance or "").startswith("Repair")
    assert [item["id"] for item in play.given("plan-code-execute-r2")["qr"]["failed"]] == ["qa-001"]


def test_however_much_failed_the_constraints_of_the_goal_are_told() -> None:
    play = run(begin(a_goal("plan", constraints=["keep the API"])), until="plan-design-qr")
    many = [{**FAIL, "id": f"qa-{number}", "finding": "wrong " * 100} for number in range(50)]
    play.end("plan-design-qr", {"items": many})

    assert "Constraint: keep the API" in (play.open["plan-design-execute-r2"].guidance or "")
    assert len(play.given("plan-design-execute-r2")["qr"]["failed"]) == 50


def test_a_review_checks_again_what_passed_before() -> None:
    play = run(begin(a_goal("plan")), until="plan-design-qr")
    play.end("plan-design-qr", {"items": [FAIL, {**PASS, "id": "qa-002"}]})
    play.end("plan-design-execute-r2", {"operations": []})
    play.end("plan-design-qr-r2", {"items": [PASS, {**FAIL, "id": "qa-002"}]})

    assert "plan-design-execute-r3" in play.open
    assert play.document["gate_history"][-1]["blocking"] == ["qa-002"]


def test_a_role_may_answer_in_parts() -> None:
    play = begin(a_goal("plan"))
    play.end("plan-design-execute", {"operations": DESIGN[:3], "more": True})
    assert list(play.open) == ["plan-design-execute-p2"]
    assert len(play.plan["milestones"]) == 1

    play.end("plan-design-execute-p2", {"operations": DESIGN[3:]})
    assert list(play.open) == ["plan-design-qr"]


def test_answering_in_parts_has_an_end() -> None:
    play = begin(a_goal("plan"))
    for part in range(1, 20):
        play.end(
            f"plan-design-execute{f'-p{part}' if part > 1 else ''}", {"operations": DESIGN * (part == 1), "more": True}
        )
    play.end("plan-design-execute-p20", {"operations": [], "more": True})

    assert list(play.open) == ["plan-design-qr"]


@pytest.mark.parametrize(
    ("row", "output", "why"),
    [
        ("plan-design-execute", None, "invalid: "),
        ("plan-design-execute", "done!", "invalid: "),
        ("plan-design-execute", {"operations": "x"}, "invalid: operations"),
        ("plan-design-execute", {"operations": [{"op": "sing", "entity": "overview"}]}, "invalid: operations.0.op"),
        ("plan-design-execute", {"operations": []}, "incomplete: the overview does not name the problem"),
        ("plan-design-execute", {"operations": DESIGN[:1]}, "incomplete: there is no milestone"),
        ("plan-design-execute", {"operations": DESIGN[:4]}, "incomplete: M-001 has no code intent"),
        ("plan-design-execute", {"operations": [*DESIGN, change(1, "src/a.py")]}, "foreign: "),
        ("plan-code-execute", {"operations": []}, "incomplete: CI-001 has no code change"),
        ("plan-code-execute", {"operations": [written(1)]}, "foreign: this phase writes code_change"),
        ("plan-code-execute", {"operations": [op("set", "overview", {}, version=2)]}, "foreign: "),
        ("plan-docs-execute", {"operations": [written(1)]}, "incomplete: M-002 has no documentation"),
        ("plan-docs-execute", {"operations": [change(3, "src/a.py", 1)]}, "foreign: this phase writes documentation"),
        ("plan-design-qr", None, "invalid: "),
        ("plan-design-qr", {"items": []}, "invalid: items"),
        ("plan-design-qr", {"items": [{**PASS, "status": "MAYBE"}]}, "invalid: items.0.status"),
        ("plan-design-qr", {"items": [{**PASS, "status": "TODO"}]}, "undecided: "),
        ("plan-design-qr", {"verdict": "PASS"}, "invalid: items"),
        ("impl-execute", {"operations": []}, "frozen: "),
        ("reconcile", {}, "invalid: milestones"),
        ("reconcile", {"milestones": []}, "incomplete: the milestones to reconcile, once each, are M-001, M-002"),
    ],
)
def test_an_answer_that_is_no_use_is_refused_and_changes_nothing(row: str, output: Any, why: str) -> None:
    play = run(begin(a_goal()), until=row)

    assert (play.refusal(next(iter(play.open)), output) or "").startswith(why)


@pytest.mark.parametrize("row", ["plan-design-qr", "plan-code-execute", "reconcile"])
def test_an_unusable_answer_that_comes_through_never_breaks_the_workflow(row: str) -> None:
    from tasks.rules.strategy import End
    from tasks.strategies import reviewed_plan
    from tasks.toolchain.catalogue import CATALOGUE

    play = run(begin(a_goal()), until=row)
    step_id = next(iter(play.open))

    found = reviewed_plan.advance(play.live, End(step_id, play.facts(step_id), "DONE", {"x": 1}), CATALOGUE)

    assert found is not None


def test_steps_that_are_not_of_the_open_row_are_none_of_its_business() -> None:
    from tasks.rules.strategy import End
    from tasks.strategies import reviewed_plan
    from tasks.toolchain.catalogue import CATALOGUE

    play = begin(a_goal())

    assert reviewed_plan.refusal(play.live, {"step_id": "fix-it"}, None) is None
    assert reviewed_plan.advance(play.live, End("fix-it", {}, "DONE"), CATALOGUE) is None
    assert reviewed_plan.input_for(play.live, {"step_id": "fix-it"}) == {}
    assert reviewed_plan.answer(play.live, {"decision": "continue"}, CATALOGUE) == "Nothing is asked."


def test_roles_that_work_on_the_plan_answer_and_write_no_files() -> None:
    play = begin(a_goal())
    seen: dict[str, PlannedStep] = {}

    def role(play: Play, step_id: str) -> Any:
        seen[step_id] = play.open[step_id]
        return good(play, step_id)

    run(play, role)

    for step_id in (*ANSWERS, *(f"{phase}-qr" for phase in PHASES), "reconcile"):
        step = seen[step_id]
        assert step.mode == "read_only"
        assert step.queue == ROWS[step_id].brief.role
        assert step.controller_task_spec.type == ("DRAFT" if step_id in ANSWERS else "REVIEW")
    assert [seen[name].queue for name in ("impl-m-001", "impl-docs-execute")] == ["developer", "technical-writer"]


@pytest.mark.parametrize("row", ["plan-design-execute", "plan-code-execute", "plan-docs-execute"])
def test_a_work_step_that_an_operator_skips_is_reviewed_all_the_same(row: str) -> None:
    play = run(begin(a_goal("plan")), until=row)
    play.end(row, state="SKIPPED")

    assert play.row == row.replace("execute", "qr")


def test_a_step_that_fails_for_good_blocks_the_plan_and_the_report_says_so() -> None:
    play = run(begin(a_goal()), until="plan-code-execute")
    found = play.end("plan-code-execute", state="FAILED")

    assert found is not None
    assert not play.open
    assert play.document["report"]["status"] == "BLOCKED"
    assert "plan-code-execute" in play.document["report"]["summary"]


@pytest.mark.parametrize(("bound", "found"), [(1, 1), (1, 60), (60, 1), (60, 60), (0, 60), (60, 0)])
def test_neither_what_binds_nor_what_failed_pushes_the_other_out_of_the_guidance(bound: int, found: int) -> None:
    rules = [f"keep the rule number {number} of our long list" for number in range(bound)]
    play = begin(a_goal("plan", constraints=rules))
    play.end("plan-design-execute", {"operations": list(DESIGN)})
    play.end("plan-design-qr", {"items": [{**FAIL, "id": f"qa-{number}"} for number in range(found)] or [PASS]})

    (step,) = play.open.values()
    guidance = step.guidance or ""
    told, failed = guidance.count("Constraint: keep the rule"), guidance.count("It is wrong")
    assert told >= min(bound, 3)
    assert failed >= min(found, 3)
    assert len(guidance) <= 1000
    if bound + found > 2:  # what the one does not need, the other has
        assert len(guidance) > 950
