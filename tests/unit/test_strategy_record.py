"""What strategies keep is stored so that workers of the release before take it, and is whole again when it is read."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from schemas import codec
from schemas.kinds.campaign import Idioms, PlanTask
from schemas.kinds.evolution import PlanningAgentResponse, PlanningPlan, PlanStep
from schemas.kinds.gap_report import IterationPlan, PlannedAction, PlannedGap
from schemas.kinds.reviewed_plan import (
    Loop,
    MilestoneOutcome,
    ReviewDocument,
    ReviewReport,
    ReviewState,
    StepEnd,
)
from schemas.kinds.reviewed_plan_files import GateRecord, QrFile, QrItem
from schemas.step import OMITTED
from tasks.plan.strategy_record import LATER, SET_APART, decode, encode
from tasks.rules.strategy import Setting
from tasks.strategies.campaign.state import CampaignState, CampaignTerms, CandidateFile, Knowledge, TaskProgress
from tasks.strategies.evolution.state import EvolutionState
from tasks.strategies.task.state import TaskState
from tests.support.growing import Script, goes_on, growing
from tests.support.kinds.campaign import Running, a_goal, an_exploration, candidate, tasks
from tests.support.plans import a_report, a_step

# Each model, where it is kept, and the fields of it that the release before (tests/support/versions.py) takes.
OLDER: tuple[tuple[type[BaseModel], str, str], ...] = (
    (CampaignState, "campaign state", "known terms prompt made waits rounds replans finding progress"),
    (
        Knowledge,
        "campaign state/known",
        "sections headings readings reading framework named confidence idioms language file_count failures cost_k "
        "patterns candidates outside tests test_pattern test_command untested confirmed narrowed",
    ),
    (CandidateFile, "campaign state/known/candidates/*", "path relevance function first last"),
    (Idioms, "campaign state/known/idioms", "required forbidden"),
    (CampaignTerms, "campaign state/terms", "drafter attempts reject clarifications replans quorum failures"),
    (TaskProgress, "campaign state/progress/*", "status steps delivered reason blocked_by tool_calls"),
    (
        PlanTask,
        "campaign document/tasks/*",
        "seq slug type delta verify budget depends preflight verify_source target_lines creates",
    ),
    (
        EvolutionState,
        "evolution state",
        "stage attempts began request language prompt unplaced ids files patched fell_back",
    ),
    (
        PlanningAgentResponse,
        "evolution document",
        "plan raw_output prompt request validation_mode drafter command stderr attempts duration_seconds notes "
        "trajectories",
    ),
    (
        PlanningPlan,
        "evolution document/plan",
        "summary rationale focus_metrics guardrails risks validation steps handoff_notes fallback_plan",
    ),
    (
        PlanStep,
        "evolution document/plan/steps/*",
        "step_id title intent actions files dependencies validation risks references",
    ),
    (IterationPlan, "gap_report document", "iteration_id gap actions acceptance_criteria estimated_risk"),
    (PlannedGap, "gap_report document/gap", "category description priority roadmap_version evidence"),
    (PlannedAction, "gap_report document/actions/*", "description target_files action_type"),
    (
        ReviewState,
        "reviewed_plan state",
        "workflow schedule cap max_iterations language row part wave open ended failed loops asked",
    ),
    (Loop, "reviewed_plan state/loops/*", "state iteration limit continued"),
    (StepEnd, "reviewed_plan state/ended/*", "step_id state untouched"),
    (ReviewDocument, "reviewed_plan document", "plan context qr gate_history plan_md outcomes report"),
    (MilestoneOutcome, "reviewed_plan document/outcomes/*", "outcome untouched delegated_to"),
    (ReviewReport, "reviewed_plan document/report", "status milestones gates summary"),
    (QrFile, "reviewed_plan document/qr/*", "schema_version phase iteration items"),
    (
        QrItem,
        "reviewed_plan document/qr/*/items/*",
        "id scope check status finding severity version fail_count accepted acceptance_reason",
    ),
    (
        GateRecord,
        "reviewed_plan document/gate_history/*",
        "phase iteration verdict blocks counts blocking findings claimed contradicted accepted reason",
    ),
    (TaskState, "task state", "prompt strict changes language template document"),
)
OR = "Keep sessions in Redis or in memory"
RED = {"category": "TEST_REGRESSION", "failing_tests": ["tests/test_auth.py::test_login"], "trace": "assert 3 == 2"}


def stored(running: Running) -> dict[str, Any]:
    """What is stored of a campaign, as a worker of the release before reads it."""
    kept = {"state": running.state, "document": running.document, "ids": list(running.steps)}
    found: dict[str, Any] = codec.loads(encode("campaign", kept))
    return found


def taken_back(running: Running, found: dict[str, Any]) -> None:
    """Have the campaign go on with what a worker of the release before wrote."""
    kept = decode(codec.dumps(found))
    running.state, running.document = kept["state"], kept["document"]


def blocked() -> Running:
    """A campaign whose BUILD failed because of the tests of its SPEC."""
    spec = {"slug": "spec-auth", "type": "SPEC", "delta": ["tests/test_auth.py"], "verify": "python-syntax"}
    running = Running(a_goal(tasks=tasks(spec, {"slug": "build-auth", "depends": "001"})))
    running.end("001-spec-auth", output="written")
    running.end("002-build-auth", "FAILED", failure=RED)
    return running


@pytest.mark.parametrize(("model", "place", "known"), OLDER, ids=[place for _, place, _ in OLDER])
def test_fields_that_the_release_before_does_not_take_are_set_apart(
    model: type[BaseModel], place: str, known: str
) -> None:
    kind, _, where = place.partition(" ")
    apart = {each.rpartition("/")[2] for each in LATER.get(kind, ()) if each.rpartition("/")[0] == where}

    assert set(model.model_fields) - set(known.split()) == apart
    assert all(not model.model_fields[name].get_default(call_default_factory=True) for name in apart)


def test_what_a_step_of_a_template_has_since_is_set_apart() -> None:
    since = {"allow_empty", "piece_of", "quick_checks", "answers_from", "keeps_answer", "goal_texts"}

    assert {each.rpartition("/")[2] for each in LATER["task"]} == since
    assert not any(OMITTED[name] for name in since)


def test_what_is_set_apart_is_put_back_where_it_was() -> None:
    running = blocked()
    kept = {"state": running.state, "document": running.document, "ids": ["a"]}

    found = codec.loads(encode("campaign", kept))

    assert found["state"]["progress"]["002"].keys() == set(OLDER[5][2].split())
    assert found[SET_APART]["state/progress/002/setback"]["trace"] == "assert 3 == 2"
    read = decode(codec.dumps(found))
    assert CampaignState.model_validate(read["state"]) == CampaignState.model_validate(running.state)
    assert (read["document"], read["ids"], SET_APART in read) == (running.document, ["a"], False)
    assert encode("campaign", read) == codec.dumps(found)


def test_a_plan_that_has_none_of_it_is_stored_as_ever() -> None:
    kept = {"state": {"known": {"readings": []}, "progress": {"001": {"status": "pending"}}}, "document": None}

    assert (encode("campaign", kept), decode(codec.dumps(kept))) == (codec.dumps(kept), kept)
    assert encode("none", kept) == codec.dumps(kept)


@pytest.mark.parametrize("found", [None, [], {}, [None, 1, "x"], {"*": None}, 5])
def test_what_is_of_another_shape_stays_as_it_is(found: Any) -> None:
    kept = {"state": {"known": found, "progress": found}, "document": {"tasks": found}}

    assert encode("campaign", kept) == codec.dumps(kept)
    assert (
        decode(codec.dumps({**kept, SET_APART: {"state/progress/001/before": 1, "document/tasks/x/sections": 2}}))
        == kept
    )


def test_what_an_older_worker_took_away_does_not_come_back() -> None:
    found = stored(blocked())
    found["state"]["progress"] = {"001": found["state"]["progress"]["001"]}

    assert decode(codec.dumps(found))["state"]["progress"].keys() == {"001"}


def test_a_task_that_an_older_worker_noted_otherwise_since_has_no_setback() -> None:
    running = blocked()
    found = stored(running)
    found["state"]["progress"]["002"] |= {"reason": "no access"}
    taken_back(running, found)

    assert CampaignState.model_validate(running.state).progress["002"].setback is None
    again = running.stuck()
    assert again is not None
    assert {step.step_id for step in again.steps} == {"003-find-out-build-auth-r2", "002-build-auth-r2"}
    assert all("It was blocked before: no access." in (step.guidance or "") for step in again.steps)


def test_an_or_that_an_older_worker_heard_decided_is_not_asked_about_again() -> None:
    found = an_exploration(candidate("src/auth.py"), candidate("src/api.py", "medium"))
    running = Running(a_goal(OR, exploration=found), Setting(drafter="queue"))
    assert running.question is not None
    kept = stored(running)
    assert kept["state"]["known"]["readings"] == ["Keep sessions in Redis", "in memory"]

    kept["state"]["known"] |= {"readings": [], "reading": "in memory"}  # as such a worker does
    taken_back(running, kept)

    known = CampaignState.model_validate(running.state).known
    assert known.open_choices == ()
    assert known.choices  # which are of no account


def test_a_state_that_is_over_does_not_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(on_end=lambda *_: goes_on(state={"waits": None, "known": {"parts": []}}))
    plan = growing(monkeypatch, script, a_step("s-1"), draft={"state": {"waits": "x", "known": {"parts": ["p"]}}})
    before = codec.loads(plan.record.strategy_state)
    assert (before["state"], before[SET_APART]) == ({"waits": "x", "known": {}}, {"state/known/parts": ["p"]})

    plan.report(a_report("s-1"))

    after = codec.loads(plan.record.strategy_state)
    assert (after["state"], after.get(SET_APART)) == ({"waits": None, "known": {}}, None)
