"""Gap reports, records and iteration plans on the wire."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemas import codec
from schemas.base import unknown_fields
from schemas.kinds.gap_report import GapGoal, GapReport, InboxItem, IterationPlan, IterationRecord, Priority
from tests.support.kinds.gap_report import a_gap, a_goal, drafted, records

REPORT = {
    "gaps": [
        {
            "category": "quality",
            "description": "Quality check failed: ruff",
            "priority": "urgent",
            "roadmap_version": "0.1",
            "evidence": "src/a.py:1:1: F401",
        }
    ],
    "most_critical": None,
    "timestamp": "2026-11-18T11:00:00Z",
}
PLAN = {
    "iteration_id": "iter-0001-20261118-110640",
    "gap": REPORT["gaps"][0],  # type: ignore[index]
    "actions": [{"description": "Fix ruff failures", "target_files": ["src/a.py"], "action_type": "modify"}],
    "acceptance_criteria": ["All new/modified files pass ruff check"],
    "estimated_risk": "medium",
}


@pytest.mark.parametrize(
    ("model", "body"),
    [
        (GapReport, REPORT),
        (IterationPlan, PLAN),
        (IterationPlan, {**PLAN, "iteration_id": "iter-12345-20261118-110640"}),
        (InboxItem, {"filename": "a.md", "title": "A", "what": "b", "why": "c", "priority": "low", "constraints": []}),
    ],
)
def test_a_document_comes_back_as_it_went(model: Any, body: dict[str, Any]) -> None:
    assert codec.loads(codec.encode(model.model_validate(body))) == body


def test_what_a_strategy_makes_comes_back_as_it_went() -> None:
    made = drafted(a_goal(a_gap(), allowed=["modules/parser/core.py"])).document

    assert codec.loads(codec.dumps(made)) == made
    assert IterationPlan.model_validate(made).model_dump(mode="json") == made


@pytest.mark.parametrize("iteration_id", ["iter-001-20261118-110640", "iter-0001-2026118-110640", "0001", ""])
def test_an_iteration_has_a_well_formed_id(iteration_id: str) -> None:
    with pytest.raises(ValidationError):
        IterationPlan.model_validate({**PLAN, "iteration_id": iteration_id})


@pytest.mark.parametrize("word", ["urgent", "URGENT", " Urgent "])
def test_priorities_come_in_any_case(word: str) -> None:
    assert GapReport.model_validate({"gaps": [a_gap(priority=word)]}).gaps[0].priority is Priority.URGENT


@pytest.mark.parametrize("word", ["soon", "", 3, None, []])
def test_an_unknown_priority_is_refused(word: Any) -> None:
    with pytest.raises(ValidationError):
        GapReport.model_validate({"gaps": [a_gap(priority=word)]})


@pytest.mark.parametrize(
    ("constraints", "read"),
    [
        ("- keep the API\n* no new dependency\n\n", ("keep the API", "no new dependency")),
        (["keep the API"], ("keep the API",)),
        ("", ()),
    ],
)
def test_constraints_are_lines_or_a_list(constraints: Any, read: tuple[str, ...]) -> None:
    item = InboxItem.model_validate({"filename": "a.md", "title": "A", "constraints": constraints})

    assert item.constraints == read


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-11-18T11:00:00Z", "2026-11-18T11:00:00Z"),
        ("2026-11-18T12:00:00+01:00", "2026-11-18T11:00:00Z"),
        ("2026-11-18T11:00:00", "2026-11-18T11:00:00Z"),
    ],
)
def test_times_are_utc(written: str, read: str) -> None:
    record = IterationRecord.model_validate(records((a_gap(), "success"))[0] | {"timestamp": written})

    assert codec.loads(codec.encode(record))["timestamp"] == read


@pytest.mark.parametrize("written", ["0001-01-01T00:00:00+02:00", "yesterday", {}])
def test_a_time_that_is_none_is_refused(written: Any) -> None:
    with pytest.raises(ValidationError):
        IterationRecord.model_validate(records((a_gap(), "success"))[0] | {"timestamp": written})


def test_a_whole_record_of_the_seed_is_known() -> None:
    record = records((a_gap(), "failure"))[0] | {
        "plan": {"iteration_id": "x"},
        "execution": {"success": False, "error_message": "boom", "files_changed": [{"path": "a"}]},
        "verification": {"all_passed": False, "summary": "ruff failed"},
        "duration_seconds": 1.5,
        "notes": "n",
    }

    assert unknown_fields(GapGoal.model_validate({"recent_records": [record]})) == 0
