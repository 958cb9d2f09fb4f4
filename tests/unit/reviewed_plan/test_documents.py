"""The documents: plan.json with every field, plan.md made of all of it, and read back by nobody."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from schemas import codec
from schemas.kinds import reviewed_plan_files as of
from schemas.kinds.reviewed_plan import ReviewContext
from schemas.kinds.reviewed_plan_files import QrFile, QrItem, QrPhase
from tasks.strategies.reviewed_plan.markdown import plan_md
from tasks.strategies.reviewed_plan.material import READERS
from tests.support.kinds.reviewed_plan import a_goal, begin, failing, run
from tests.support.kinds.reviewed_plan_values import whole

# The fields that everybody who reads plan.json may count on, entity by entity.
FIELDS: dict[type[BaseModel], str] = {
    of.Plan: "schema_version plan_id created_at frozen_at overview planning_context invisible_knowledge milestones "
    "milestone_dependencies",
    of.Overview: "title problem approach",
    of.PlanningContext: "decision_log rejected_alternatives constraints known_risks",
    of.Decision: "id decision reasoning_chain timestamp",
    of.RejectedAlternative: "id alternative rejection_reason decision_ref",
    of.Constraint: "id type description source",
    of.Risk: "id risk mitigation anchor decision_ref",
    of.InvisibleKnowledge: "architecture data_flow structure_rationale invariants tradeoffs",
    of.Diagram: "diagram_ascii description",
    of.Milestone: "id number name files flags requirements acceptance_criteria tests code_intents code_changes "
    "documentation is_documentation_only delegated_to",
    of.MilestoneTests: "files type backing scenarios skip_reason",
    of.Scenarios: "normal edge error",
    of.CodeIntent: "id file function behavior decision_refs params",
    of.CodeChange: "id intent_ref file diff context_lines why_comments",
    of.Documentation: "module_comment docstrings algorithm_blocks inline_comments",
    of.MilestoneDependencies: "diagram_ascii waves",
    of.Wave: "wave milestones",
    ReviewContext: "task_spec constraints entry_points rejected_alternatives current_understanding assumptions "
    "invisible_knowledge user_quotes",
    QrFile: "schema_version phase items",
    QrItem: "id scope check status finding",
}
OURS = {"version", "depends_on", "iteration", "severity", "fail_count", "accepted", "acceptance_reason"}


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


@pytest.mark.parametrize("model", FIELDS)
def test_every_named_field_is_there_and_no_other_but_ours(model: type[BaseModel]) -> None:
    fields = set(FIELDS[model].split())

    assert fields <= model.model_fields.keys() <= fields | OURS


def test_a_whole_plan_is_kept_as_it_is() -> None:
    plan = of.Plan.model_validate(whole())

    assert plan == of.Plan.model_validate_json(codec.encode(plan))
    assert set(texts(whole())) <= set(texts(plan.model_dump(mode="json")))


@pytest.mark.parametrize("version", [1, 3])
def test_a_plan_of_another_version_is_no_plan(version: int) -> None:
    with pytest.raises(ValidationError):
        of.Plan.model_validate({**whole(), "schema_version": version})


def test_every_text_of_the_plan_stands_in_plan_md() -> None:
    page = plan_md(of.Plan.model_validate(whole()))

    missing = {text for text in texts(whole()) if text not in page} - {"2026-09-21"}
    in_diffs = {whole()["milestones"][0]["code_changes"][0]["file"]}  # a diff names its file itself
    assert missing == in_diffs


def test_a_fence_is_longer_than_any_in_it_and_no_text_makes_a_heading() -> None:
    plan = whole()
    plan["milestones"][0]["code_changes"][0]["diff"] = "+```\n+````\n"
    plan["overview"]["title"] = "A\n# B"

    page = plan_md(of.Plan.model_validate(plan))

    assert "`````diff\n+```\n+````\n`````\n" in page
    assert page.startswith("# A # B\n")


def test_the_same_plan_gives_the_same_page() -> None:
    assert plan_md(of.Plan.model_validate(whole())) == plan_md(of.Plan.model_validate(whole()))


def test_plan_md_is_handed_to_nobody_and_changes_nothing() -> None:
    assert "plan_md" not in READERS
    play = run(begin(a_goal()), until="impl-execute")
    before = play.given("impl-m-001"), play.facts("impl-m-001")
    play.document["plan_md"] = "# Forged\n"

    assert (play.given("impl-m-001"), play.facts("impl-m-001")) == before


def test_plan_md_follows_the_plan_to_its_freezing() -> None:
    play = begin(a_goal())
    pages = [run(play, until=row).document["plan_md"] for row in ("plan-docs-execute", "plan-docs-qr", "impl-execute")]

    assert pages[0] is None
    assert "not frozen" in pages[1]
    assert "frozen at 2026-09-21T14:13:20.000Z" in pages[2]
    assert pages[2] == plan_md(of.Plan.model_validate(play.plan))


def test_what_blocked_a_gate_stays_in_the_history_when_its_file_is_gone() -> None:
    play = run(begin(a_goal("plan")), failing(plan_design=1))

    first, second = [record for record in play.document["gate_history"] if record["phase"] == QrPhase.PLAN_DESIGN]
    assert first["findings"] == ["qa-001 It is right: It is wrong"]
    assert second["findings"] == []
    assert play.document["qr"] == {}
