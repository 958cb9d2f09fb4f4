"""Advice for ended plans and revised steps: how such a plan can go on, computed from limits and facts.

There is one function for each rule that ends plans. It names a change and the new value. It leaves out changes that
cannot help: a limit if nothing is left to start, too many retries, a file that no goal may name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import GoalKind, Mode
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt_rules
from tasks.policy.advice_facts import (
    AGAIN,
    MOST_NAMED,
    Facts,
    allow_more_retries,
    category_of,
    listing,
    sentence,
)
from tasks.policy.advice_on_limits import advise_on_budget, advise_on_wall_clock
from tasks.policy.pipeline import ADVICE, MORE_ADVICE, Feature, always
from tasks.text.paths import fault


def advise(unit: UnitOfWork, rule: str, evidence: Mapping[str, Any], cause: str = "") -> str:
    """Return how to go on with a plan that `rule` has ended, or is about to end, as one text."""
    kept, standing = unit.strategy_state or {}, unit.snapshot.standing
    allowed = (kept.get("goal") or {}).get("allowed_files")
    facts = Facts(
        plan=unit.plan,
        evidence=evidence,
        now=unit.snapshot.now,
        rested=unit.rested,
        steps=unit.snapshot.steps,
        active=unit.snapshot.active,
        leases=unit.snapshot.leases,
        held=unit.change.ended,
        ready=tuple(unit.ready.values()),
        allowed=None if allowed is None else frozenset(allowed),
        outside=_outside(unit, str(evidence.get("step_id", ""))),
        stands=bool(standing and standing.command == "halt"),
        validation_mode=(kept.get("document") or {}).get("validation_mode"),
        cause=cause,
        policy=unit.snapshot.policy,
    )
    return " ".join(filter(None, (_advise(rule, facts), *(more(unit) for more in MORE_ADVICE))))


def _advise(rule: str, facts: Facts) -> str:
    found = ADVICE.get(rule)
    return found(facts) if found else ""


def _outside(unit: UnitOfWork, step_id: str) -> tuple[str, ...]:
    """Return the files outside of a step that its last attempt touched, or that its evidence names."""
    outcome, step = unit.answers.get(step_id), unit.snapshot.steps.get(step_id)
    if outcome is None or step is None:
        return ()
    told = outcome.failure_evidence
    touched = {*outcome.touched_files, *outcome.created_files, *(told.affected_files if told else ())}
    mine = step.facts["allowed_files"] if step.facts["mode"] == Mode.PATCH else ()
    return tuple(sorted(touched.difference(mine)))


def _security(facts: Facts) -> str:
    step, category = facts.step, facts.evidence.get("value")
    look = f"Look at the attempt ({category}): the same goal may fail again in the same way."
    if step is None or category != C.ALLOWLIST_VIOLATION:
        return f"{look} No limit changes that: repair the controller, then {AGAIN}."
    if step.facts["mode"] != Mode.PATCH:
        wrote = f" ({listing(facts.outside)})" if facts.outside else ""
        what = "only verifies, and its attempt" if step.facts["mode"] == Mode.TEST else "is read-only, and the agent"
        return f"{look} {step.step_id} {what} wrote{wrote}: no file of it may be changed."
    never = [path for path in facts.outside if fault(path)]
    rest = [path for path in facts.outside if path not in never]
    known = [path for path in rest if facts.allowed is not None and path in facts.allowed]
    missing = [path for path in rest if path not in known]
    told = [look]
    if never:
        told.append(f"No goal may allow {listing(never)}.")
    if known:
        told.append(
            f"allowed_files has {listing(known)} already, and {step.step_id} does not: name such files in the "
            f"sentence, or supply the steps with them among the allowed_files of {step.step_id}."
        )
    if missing and facts.allowed is not None:
        told.append(f"If they may be touched, add {listing(missing)} to allowed_files and {AGAIN}.")
    elif missing:
        told.append(
            f"If they may be touched, give {listing(missing)} to {step.step_id} in supplied steps; they have to "
            "stand in the goal's allowed_files, too."
        )
    return " ".join(told)


def _cannot_revise(facts: Facts) -> str:
    failed = [facts.steps[each["step_id"]] for each in facts.evidence.get("steps", ())]
    if not failed and facts.plan.head.tightened is not None:
        return f"An operator left too few files (`tighten`): {AGAIN} once its steps may have theirs."
    ways = [way for step in failed if (way := allow_more_retries(step, facts.failed, facts.policy))]
    names = listing(f"{step.step_id} ({category_of(step, facts.failed) or 'failed'})" for step in failed)
    read = f"Read why these failed: {names}." if failed else "Read why its steps failed."
    change = "give the goal better context or smaller steps"
    return f"{read} {sentence(change, *ways[:MOST_NAMED])}"


def _manual(facts: Facts) -> str:
    scope, actor = facts.evidence.get("scope"), facts.evidence.get("actor", "an operator")
    if scope and facts.stands:
        return (
            f"Have {actor} lift the halt of {scope} (`planner resume`), then {AGAIN}: until then it is halted as well."
        )
    return f"Ask {actor}, who ended it; then {AGAIN}."


def _approval_rejected(facts: Facts) -> str:
    who, step = facts.evidence.get("actor", "a person"), facts.evidence.get("step_id", "the step")
    return f"Change {step} as {who} asks, then {AGAIN}."


def _approval_deadline(facts: Facts) -> str:
    name, step = facts.evidence.get("step_id", "the step"), facts.step
    leave = f"leave {step.facts['risk_level']} out of approvals" if step else "leave its risk out of approvals"
    return sentence(f"{AGAIN} and approve {name} in time (`planner approve`)", leave)


def _answer_deadline(facts: Facts) -> str:
    asked = facts.evidence.get("questions", ())
    if not asked:
        return f"No drafter answered in time: look at it (`planner health`), or {AGAIN} to another drafter."
    return sentence(f"{AGAIN} and answer its questions in time (`planner answer`)", "put the answers into the goal")


def _errors(facts: Facts) -> str:
    errors = facts.evidence.get("errors", ())
    told = [f"{error['pointer'] or '/'}: {error['message']}" for error in errors[:MOST_NAMED]]
    more = f" And {len(errors) - MOST_NAMED} more errors." if len(errors) > MOST_NAMED else ""
    if not told:
        return f"Change the goal, then {AGAIN}."
    return f"Correct this, then {AGAIN}: {' '.join(told)}{more}"


def _rejected(facts: Facts) -> str:
    """Return the advice of the rule that caused a rejection; if there is none, name the errors to correct."""
    if facts.cause == "internal_error":
        return "Nothing in the goal: send the same goal again once the planner is repaired."
    return (_advise(facts.cause, facts) if facts.cause != "rejected" else "") or _errors(facts)


def _planning_failed(facts: Facts) -> str:
    kind = facts.plan.head.kind
    ways = ["describe the goal more clearly"]
    if kind in (GoalKind.TASK, GoalKind.CAMPAIGN, GoalKind.EVOLUTION):
        ways.append("name another drafter")
    if facts.validation_mode == "strict":
        ways.append("set evolution.validation_mode to lenient")
    if kind == GoalKind.TASK or kind == GoalKind.EVOLUTION:
        ways.append("supply the steps" if kind == GoalKind.TASK else "")
    what = "the errors" if facts.evidence.get("errors") else "why the last answer was refused"
    return f"Read {what}. {sentence(*ways)}"


def _clarification_limit(facts: Facts) -> str:
    met, limit = facts.evidence.get("value"), facts.evidence.get("limit")
    say = "answer the questions in the objective"
    if not isinstance(met, int) or met >= MOST_CLARIFICATIONS:
        return sentence(say)
    return sentence(say, f"raise PLANNER_PLANNING_MAX_CLARIFICATIONS from {limit} to at least {met + 1}")


def _review_stopped(facts: Facts) -> str:
    gate, who = facts.evidence.get("gate", "the gate"), facts.evidence.get("actor", "A person")
    return f"{who} stopped it at {gate}: settle the findings of the review there, then {AGAIN}."


MOST_CLARIFICATIONS = 20  # the largest value of the operator's setting

FEATURE = Feature(
    "advice",
    (),
    advice={
        **{rule.name: rule.advice for rule in halt_rules.RULES},
        "security": _security,
        "budget": advise_on_budget,
        "wall_clock": advise_on_wall_clock,
        "cannot_revise": _cannot_revise,
        "manual": _manual,
        "rejected": _rejected,
        "approval_deadline": _approval_deadline,
        "answer_deadline": _answer_deadline,
        "invalid_unfolding": _errors,
        "plan_unfit": _errors,
        "planning_failed": _planning_failed,
        "clarification_limit": _clarification_limit,
        "review_stopped": _review_stopped,
        "approval_rejected": _approval_rejected,
    },
    is_idle=always,
)
