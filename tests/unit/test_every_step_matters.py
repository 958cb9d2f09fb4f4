"""Every step of every template and kind has an effect: it changes files, verifies, or somebody reads its answer."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.base import GoalKind
from schemas.goal import Goal
from tasks.strategies.campaign.exploration import EXPLORE
from tasks.strategies.campaign.steps import DRAFT
from tasks.strategies.drafting.project import Project, project_of
from tasks.strategies.evolution.steps import FIND_ID
from tasks.strategies.gap_report.steps import EXPLORE_ID
from tasks.strategies.reviewed_plan.workflow import ROWS
from tasks.strategies.task.steps import DRAFT_ID, template_steps
from tasks.strategies.task.templates import TEMPLATES, WRITE_TESTS, Template
from tasks.toolchain.catalogue import CATALOGUE
from tests.corpus import record
from tests.corpus.goals import FAILING, goal
from tests.support.stored_steps import facts_of

READ_BY_STRATEGY = {  # how the names begin of steps that a strategy goes on from
    GoalKind.TASK: (DRAFT_ID,),
    GoalKind.GAP_REPORT: (EXPLORE_ID,),
    GoalKind.CAMPAIGN: (EXPLORE, DRAFT),
    GoalKind.REVIEWED_PLAN: tuple(name for name, row in ROWS.items() if row.reads_answer),
    GoalKind.EVOLUTION: (DRAFT_ID, FIND_ID),
}


def idle_steps(steps: list[dict[str, Any]], kind: GoalKind) -> list[str]:
    """The steps of a plan without which all would come out the same."""
    only_looks = all(step["mode"] == "read_only" for step in steps)  # then the answers are what was asked for
    given = {name for step in steps for name in step["answers_from"]}
    return [
        step["step_id"]
        for step in steps
        if step["mode"] == "read_only"
        and step["controller_task_spec"]["type"] not in ("REVIEW", "DELIVER")
        and not step["step_id"].startswith(READ_BY_STRATEGY[kind])
        and not (step["keeps_answer"] and (only_looks or step["step_id"] in given))
    ]


@pytest.mark.parametrize("template", [*TEMPLATES.values(), WRITE_TESTS], ids=lambda template: template.rows[0].step_id)
def test_every_step_of_a_template_has_an_effect(template: Template) -> None:
    project = project_of(Goal.model_validate(goal("Do it", context=FAILING)), CATALOGUE)
    assert isinstance(project, Project)
    steps = template_steps(project, template)

    shown = {"verify-focused", "locate-source"}  # by the patch before it, and by the goal
    assert {row.step_id for row in template.rows} - shown == {step.step_id.rstrip("-0123456789") for step in steps}
    assert idle_steps([step.model_dump(mode="json") for step in steps], GoalKind.TASK) == []
    for step in steps:
        earlier = [each.step_id for each in steps[: steps.index(step)] if each.mode == "read_only"]
        assert list(step.answers_from) == ([] if step.mode == "test" else earlier[:-5:-1])


def test_every_step_of_the_recorded_plans_has_an_effect() -> None:
    idle, names = set(), set()
    for recorded in record.read():
        kind = GoalKind(recorded["scene"]["goal"].get("kind", "task"))
        (kept,) = (fields for key, fields in recorded["state"].items() if key.endswith(":steps"))
        steps = [*facts_of({name: text.encode() for name, text in kept.items()}).values()]
        idle |= {(kind, name) for name in idle_steps(steps, kind)}
        names |= {(kind, step["step_id"]) for step in steps}

    assert idle == set()
    for kind, read in READ_BY_STRATEGY.items():
        assert {name for name in read if (kind, name) not in names} <= {"reconcile", "context-verify"}
