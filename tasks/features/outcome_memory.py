"""Records of ended attempts for later plans of their repository, in the commit that ends them.

Attempts that show nothing about the work are not recorded. These are attempts that were handed back, could not be
verified or asked for files, and failures by known flaky tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import GoalKind, Mode
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.step import PlannedStep, VerifyTool, fields_of
from schemas.stored import PlanRecord
from tasks.memory import order
from tasks.memory.alike import MOST_COMPARED, Compared, compare
from tasks.memory.checks import accepted_tools, never_red
from tasks.memory.outcomes import MOST_TESTS, fingerprint_of, list_of, place_of, read_records, write_record
from tasks.plan.changeset import RecordedAttempt
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import (
    ARRANGED,
    AT_BIRTH,
    ENDED,
    LIMITS,
    RECALLS,
    SEED,
    Feature,
    Judgement,
    Recall,
    always,
    switched,
)
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.judging import judges_by_holdout
from tasks.rules.strategy import Draft
from tasks.rules.validation import MAX_TOOLS
from tasks.strategies.drafting.past_checks import checks_by_past
from tasks.strategies.drafting.project import Project, project_of
from tasks.strategies.task.goal_type import goal_type, task_kind
from tasks.toolchain.catalogue import catalogue_of, once
from tasks.toolchain.command_lines import render
from tasks.toolchain.contract import fits

CHECKS = "memory_checks"  # among limits, where past failures choose checks
ORDER = "memory_order"  # among limits, where it is not LIKELY; 0: the order of a draft stays
RAW = "raw"  # key of records that are not compared yet
OUTCOMES = "outcomes"  # key in the log of a plan's creation; among limits, 0: nothing is recorded or read


def where(goal: Goal) -> str | None:
    """Return the name of the list that records attempts of the goal's repository; None without a repository."""
    return list_of(goal.tenant, goal.context.repo, fingerprint_of(goal)) if goal.context.repo else None


def read(raw: Sequence[bytes], goal: Goal, __: int) -> dict[str, Any]:
    """Return the fingerprint and kind of task for the plan's records, and the stored records, undecoded."""
    kind = task_kind(goal_type(goal)) if goal.kind is GoalKind.TASK else goal.kind.value
    return {"fingerprint": fingerprint_of(goal), "kind": kind, **({RAW: raw} if raw else {})}


def compare_steps(plan_seed: PlanSeed, goal: Goal, draft: Draft) -> PlanSeed:
    """Replace the recalled records in the plan seed by the records that are similar to the goal or its draft's steps.

    Also store the checks, and the order of steps, that these records suggest.
    """
    recalled = plan_seed.recalled.get(OUTCOMES) or {}
    if RAW not in recalled:  # nothing is recorded, or a log has the result already
        return plan_seed
    found = _compare(recalled, goal, draft.steps, plan_seed.now)
    kept = {name: value for name, value in recalled.items() if name != RAW}
    kept |= {"similar": found.similar} if found.similar else {}
    if plan_seed.switches.get(CHECKS) and draft.state is None:
        kept |= {"checks": checks} if (checks := _choose_checks(recalled, goal, draft, found, plan_seed.now)) else {}
    by = plan_seed.switches.get(ORDER, order.LIKELY)
    may_move = by and draft.state is None and len(draft.steps) <= MOST_COMPARED
    if may_move and (steps := order.arrange(draft.steps, found.past, by)):
        kept["order"] = {"by": order.NAMES[by], "steps": steps}
    return replace(plan_seed, recalled={**plan_seed.recalled, OUTCOMES: kept})


def put_in_order(plan_seed: PlanSeed, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Sort the steps of a draft by the order that past attempts suggest, if the plan seed has one."""
    known = (plan_seed.recalled.get(OUTCOMES) or {}).get("order")
    if not known:
        return steps
    places = {name: place for place, name in enumerate(known["steps"])}
    return tuple(sorted(steps, key=lambda step: places[step.step_id]))


def _choose_checks(
    recalled: Mapping[str, Any], goal: Goal, draft: Draft, found: Compared, now: int
) -> list[dict[str, Any]]:
    """Return the checks to add to the last step that patches, by past failures, and the checks to run last.

    A check runs last if it never found anything. Checks to add have `tool`, `step_id`, `category` and `verify`; the
    others have only `tool`.
    """
    catalogue, records = catalogue_of([dict(tool) for tool in draft.tools]), read_records(recalled[RAW], now)
    unasked = {name for step in draft.steps for name in step.quick_checks}
    quiet = sorted(never_red(records, catalogue.contracts) & unasked)
    last = next((step for step in reversed(draft.steps) if step.mode is Mode.PATCH), None)
    added: list[tuple[str, VerifyTool]] = []
    if (
        last
        and last.piece_of is None
        and last.allowed_files
        and isinstance(project := project_of(goal, catalogue), Project)
    ):
        room = MAX_TOOLS - len(last.verify_tools)
        added = checks_by_past(last, found.past.get(last.step_id), accepted_tools(records), project)[:room]
    return [
        *(
            {"tool": tool.tool, "step_id": last.step_id, "category": why, "verify": fields_of(tool)}
            for why, tool in added
            if last
        ),
        *({"tool": name} for name in quiet),
    ]


def put_checks(plan_seed: PlanSeed, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Add the chosen checks to their steps, and run the checks that never found anything last."""
    chosen = (plan_seed.recalled.get(OUTCOMES) or {}).get("checks")
    return tuple(_with_checks(step, chosen) for step in steps) if chosen else steps


def _with_checks(step: PlannedStep, chosen: Sequence[Mapping[str, Any]]) -> PlannedStep:
    more = [VerifyTool.model_validate(each["verify"]) for each in chosen if each.get("step_id") == step.step_id]
    own = {tool.tool for tool in step.verify_tools}
    quiet = {each["tool"] for each in chosen if "step_id" not in each} & {*step.quick_checks}
    tools = tuple(sorted(once((*more, *step.verify_tools)), key=lambda tool: tool.tool in quiet))
    if tools == step.verify_tools:
        return step
    marked = dict.fromkeys((*step.quick_checks, *(tool.tool for tool in more if tool.tool not in own)))
    update = {"verify_tools": tools, "verify": render(tools), "quick_checks": tuple(marked)}
    step = step.model_copy(update=update)
    return step.model_copy(update={"requires": step.required})


def similar_to(plan_seed: PlanSeed, goal: Goal) -> tuple[Mapping[str, Any], ...]:
    """Return the recorded attempts that are similar to a goal that has no steps yet, with their results."""
    recalled = plan_seed.recalled.get(OUTCOMES) or {}
    if RAW not in recalled:
        return ()
    return tuple(_compare(recalled, goal, (), plan_seed.now).similar)


def _compare(recalled: Mapping[str, Any], goal: Goal, steps: Iterable[PlannedStep], now: int) -> Compared:
    records = [each for each in read_records(recalled[RAW], now) if each.kind == recalled["kind"]]
    about = [(each.step_id, each.title, each.allowed_files) for each in steps]
    return compare([("", goal.goal, goal.allowed_files), *about], records, now)


def begin(plan: PlanRecord, recalled: dict[str, Any]) -> None:
    """Store in the plan's head where the plan records its attempts, and the similar attempts of earlier plans."""
    plan.head.memory = {name: value for name, value in recalled.items() if name != RAW}


def keep_list(unit: UnitOfWork, _: PlanSeed, __: Goal, ___: Draft) -> None:
    """Refresh the list of records that a plan begins to use, and drop its oldest records."""
    if place := place_of(unit.plan.head):
        unit.change.memory.append(RecordedAttempt(place.name, b""))


def note(unit: UnitOfWork, seen: Judgement) -> None:
    """Record the result of an attempt."""
    place, failure = place_of(unit.plan.head), seen.failure
    if place is None or seen.handed_back or seen.known_flaky:
        return
    facts, category = seen.step.facts, failure["category"] if failure else ""
    if category == C.FLAKY_TEST or (failure is None and seen.step.status.state != S.DONE):
        return
    tests: list[str] = []
    if failure and not judges_by_holdout(facts):  # no plan may know their tests
        tests = [test for test in failure.get("failing_tests") or () if fits("test_id", test)][:MOST_TESTS]
    metrics = seen.outcome.metrics
    tokens = (metrics.tokens_used if metrics else None) or 0
    record = write_record(place, facts, tokens, unit.snapshot.now, category, tests)
    unit.change.memory.append(RecordedAttempt(place.name, record))


FEATURE = Feature(
    "outcome_memory",
    (
        LIMITS.row(switched(OUTCOMES)),
        RECALLS.row(Recall(OUTCOMES, OUTCOMES, "list", where, read, begin, lambda plan: plan.head.memory)),
        LIMITS.row(switched(ORDER)),
        LIMITS.row(switched(CHECKS)),
        SEED.row(compare_steps),
        ARRANGED.row(put_in_order),
        ARRANGED.row(put_checks),
        AT_BIRTH.row(keep_list),
        ENDED.row(note),
    ),
    is_idle=always,
)
