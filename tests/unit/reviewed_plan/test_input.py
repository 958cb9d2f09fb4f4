"""What a controller is given beside its guidance: the documents of its row, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from schemas import codec
from tests.support.kinds.reviewed_plan import FAIL, PASS, Play, a_goal, begin, failing, good, run


def given(row: str, role: Any = good) -> Any:
    play = run(begin(a_goal()), role, until=row)
    return play.given(next(iter(play.open)))


@pytest.mark.parametrize(
    ("row", "names"),
    [
        ("plan-design-execute", {"context", "plan", "qr", "writes", "files", "verify"}),
        ("plan-design-qr", {"context", "plan", "qr"}),
        ("plan-code-execute", {"context", "plan", "qr", "writes"}),
        ("plan-docs-execute", {"context", "plan", "qr", "writes"}),
        ("impl-execute", {"milestone", "qr"}),
        ("impl-code-qr", {"context", "plan", "outcomes", "qr"}),
        ("impl-docs-execute", {"plan", "outcomes", "qr"}),
        ("reconcile", {"plan", "outcomes"}),
    ],
)
def test_a_row_is_given_what_it_reads(row: str, names: set[str]) -> None:
    assert given(row).keys() == {"prompt", "schema", "strict_schema", "role", "checklist", *names}


def test_the_plan_is_given_at_the_version_to_work_on() -> None:
    play = run(begin(a_goal()), until="plan-code-execute")

    assert play.given("plan-code-execute")["plan"] == play.plan


def test_a_writer_is_told_what_its_entities_are_made_of() -> None:
    writes = given("plan-design-execute")["writes"]

    assert writes["overview"]["op"] == ["set"]
    assert writes["code_intent"] == {
        "op": ["add", "set", "remove"],
        "required": ["milestone", "file", "behavior"],
        "optional": ["function", "decision_refs", "params"],
    }
    assert given("plan-docs-execute")["writes"]["documentation"]["op"] == ["set"]
    assert "code_intents" not in writes["milestone"]["optional"]


def test_whoever_carries_out_a_milestone_is_given_that_milestone_and_what_it_rests_on() -> None:
    found = given("impl-execute")["milestone"]

    assert found["milestone"]["id"] == "M-001"
    assert [each["id"] for each in found["decisions"]] == ["DL-001"]
    assert found["milestone"]["code_changes"][0]["diff"]


def test_a_reviewer_is_given_the_items_that_are_open_and_what_blocks() -> None:
    def role(play: Play, step_id: str) -> Any:
        return {"items": [FAIL, {**PASS, "id": "qa-002"}]} if step_id == "plan-design-qr" else good(play, step_id)

    play = run(begin(a_goal()), role, until="plan-design-qr")
    play.end("plan-design-qr", role(play, "plan-design-qr"))
    play.end("plan-design-execute-r2", {"operations": []})

    qr = play.given("plan-design-qr-r2")["qr"]
    assert (qr["iteration"], qr["blocks"]) == (2, ["MUST", "SHOULD", "COULD"])
    assert [item["status"] for item in qr["items"]] == ["FAIL", "PASS"]
    assert [item["id"] for item in qr["failed"]] == ["qa-001"]


def test_a_developer_of_a_later_round_is_given_what_failed() -> None:
    play = run(begin(a_goal()), failing(impl_code=1), until="impl-code-qr")
    play.end("impl-code-qr", {"items": [FAIL]})

    assert play.given("impl-m-001-r2")["qr"]["failed"][0]["finding"] == "It is wrong"


def test_what_is_given_is_plain_json() -> None:
    play = begin(a_goal())

    assert codec.loads(codec.dumps(play.given("plan-design-execute"))) == play.given("plan-design-execute")
