"""Changes of tests and checks: one table of the policy decides to refuse, to ask a person, or to report.

A controller reports its findings (`tasks/toolchain/integrity`), and decides nothing. A refused change is a failure of
its attempt. The step is revised once, with a sentence of the planner as guidance. The next refusal halts the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from schemas.base import FailureCategory, GoalKind
from schemas.goal import Goal
from schemas.integrity import IntegrityAction as A
from schemas.integrity import IntegrityFamily as F
from schemas.step import PlannedStep, PreviousFailure
from schemas.stored import PlanRecord
from schemas.stored.features import IntegrityFound
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.advice_facts import Facts
from tasks.policy.narrowing import Evidence
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import AT_BIRTH, FIRES, JUDGES, REVISE, Failure, Feature, Judgement, always, keeping
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.revision import Revision
from tasks.policy.waits import ask_approval
from tasks.rules.integrity import Asked, Decided, asked_by, decide, is_of_interest, rows_of
from tasks.rules.strategy import Draft
from tasks.strategies.task.goal_type import goal_type
from tasks.text.fields import MAX_GUIDANCE, as_written, fit
from tasks.text.paths import fault
from tasks.toolchain.integrity.finding import FAMILIES, TELLS

ASKED = "integrity"  # the note of the goal's type and requests, if they matter
RULE = "integrity"  # of the halt and of the revision
CATEGORY = FailureCategory.INTEGRITY
DIVERGE = FailureCategory.TESTS_DIVERGE  # of a change that the tests of the base alone refuse
CATEGORIES = frozenset({CATEGORY, DIVERGE})
MOST_TOLD = 10  # places in an event and in a failure
MOST_KEPT = 20  # of a plan, for people
MOST_REFUSED = 2  # refusals of a step that halt the plan
MAX_WHAT = 160


def type_of(goal: Goal) -> str:
    """Return the name of a goal's type in the policy's table: the type of a task, else the kind of the goal."""
    return goal_type(goal).value if goal.kind is GoalKind.TASK else goal.kind.value


def keep_asked(unit: UnitOfWork, plan_seed: PlanSeed, goal: Goal, _: Draft) -> None:
    """Store which changes of tests and checks the goal requests, if that can affect a decision."""
    asked = asked_by(goal, type_of(goal))
    if is_of_interest(plan_seed.policy, goal, asked):
        unit.keep_note(ASKED, asked.keep())


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Decide about a success by its changes of tests and checks. Raises NeedsSteps if the snapshot lacks the note.

    Returns true if a person is asked first.
    """
    said = seen.outcome.integrity
    if said is None or seen.failure is not None or seen.handed_back:
        return False
    kept = unit.note(ASKED)
    asked = Asked.of(kept) if kept else Asked()
    head = unit.plan.head
    decided = decide(said, asked, rows_of(unit.snapshot.policy, head, asked), head.context.get("failing_tests") or ())
    decided = [each for each in decided if each.action is not A.PASS]
    if not decided:
        return False
    action = decided[0].action
    if action is A.APPROVE and _is_approved(unit, seen.step, decided):
        action = A.TELL
    told = [_shown(each) for each in decided if action is A.TELL or each.action is action]
    about = {"step_id": seen.step.step_id, "attempt": seen.attempt.attempt}
    data = {**about, "action": action.value, "counts": dict(said.counts), "places": told[:MOST_TOLD]}
    unit.emit("outcome.integrity", data, sentence_of(decided, action))
    _keep(unit, seen.step, action, told)
    if action is A.REFUSE:
        counts = unit.plan.integrity.refused
        counts[seen.step.step_id] = counts.get(seen.step.step_id, 0) + 1
        trace = "\n".join(f"{each['path']}:{each['line']}: {each['kind']}: {each['what']}" for each in told)
        seen.failure = PreviousFailure(
            category=_category(decided),
            trace=fit_evidence(trace) or None,
            suggestion=fit_evidence(sentence_of(decided, action)),
        ).model_dump()
    elif action is A.APPROVE:
        unit.plan.integrity.asked[seen.step.step_id] = _digest(decided)
        unit.move_step(seen.step, "ACTIVE", "retried", "a person looks at the change first")
        ask_approval(unit, seen.step, sentence_of(decided, action), places=told[:MOST_TOLD])
        return True
    return False


def _category(decided: Sequence[Decided]) -> FailureCategory:
    kinds = {each.place.kind for each in decided if each.action is A.REFUSE}
    return DIVERGE if {FAMILIES.get(kind) for kind in kinds} == {F.TESTS_DIVERGE} else CATEGORY


def sentence_of(decided: Sequence[Decided], action: A) -> str:
    """Return a sentence of the planner about the effect of a change, its places, and the next action."""
    by_kind: dict[str, list[str]] = {}
    for each in decided:
        if each.action is action or action is A.TELL:
            place = each.place
            where = f"{place.path}:{place.line}" if fault(place.path) is None and place.line else ""
            by_kind.setdefault(TELLS.get(place.kind, "a finding that this planner does not know"), []).append(where)
    told = []
    for what, places in by_kind.items():
        named = ", ".join(list(dict.fromkeys(filter(None, places)))[:3])
        told.append(f"{what} ({named})" if named else what)
    found = "; ".join(told)
    if action is A.REFUSE:
        return f"The change was refused: {found}. Leave tests and checks as strict as they were, and fix the code."
    return f"A person looks at the change first: {found}." if action is A.APPROVE else f"The change: {found}."


def revise(_: UnitOfWork, step: Step, was: PlannedStep, __: Evidence) -> Revision | None:
    """Give the sentence of a refusal to the next attempt as guidance."""
    said = (step.status.previous or {}).get("suggestion") or ""
    guidance = fit(f"{was.guidance or ''} {said}".strip(), MAX_GUIDANCE)
    return Revision(was.model_copy(update={"guidance": guidance}), None, (RULE,)) if guidance != was.guidance else None


def fires(plan: PlanRecord, step: Step, failure: Failure) -> tuple[str, str, dict[str, Any]] | None:
    """Halt a plan if one of its steps was refused MOST_REFUSED times."""
    if failure["category"] not in CATEGORIES or (count := plan.integrity.refused.get(step.step_id, 0)) < MOST_REFUSED:
        return None
    reason = f"{step.step_id} was refused {count} times because it weakens tests or checks"
    places = [each for each in plan.integrity.told if each[0] == step.step_id][-MOST_TOLD:]
    names = ("step_id", "action", "kind", "path", "line", "what")
    values = {"value": count, "limit": MOST_REFUSED, "limit_name": "refusals", "step_id": step.step_id}
    return (
        "integrity",
        reason,
        {**values, "told": failure["suggestion"], "places": [dict(zip(names, each, strict=True)) for each in places]},
    )


def _keep(unit: UnitOfWork, step: Step, action: A, told: Sequence[dict[str, Any]]) -> None:
    kept = unit.plan.integrity
    new = [[step.step_id, action.value, each["kind"], each["path"], each["line"], each["what"]] for each in told]
    kept.told = [*kept.told, *new][-MOST_KEPT:]
    unit.plan.dirty.add("live")


def _shown(each: Decided) -> dict[str, Any]:
    place = each.place
    what = fit(place.what, MAX_WHAT, as_written)
    return {"kind": place.kind, "path": fit(place.path, 512), "line": place.line, "what": what}


def _digest(decided: Sequence[Decided]) -> str:
    text = "\n".join(sorted(f"{each.place.kind} {each.place.path} {each.place.what}" for each in decided))
    return blake2b(text.encode(errors="replace"), digest_size=9).hexdigest()


def _is_approved(unit: UnitOfWork, step: Step, decided: Sequence[Decided]) -> bool:
    is_answered = step.status.approval not in ("", "asked")
    return is_answered and unit.plan.integrity.asked.get(step.step_id) == _digest(decided)


def _advise(facts: Facts) -> str:
    name = facts.step.step_id if facts.step else "the step"
    return (
        f"Read what {name} changed in tests and checks. If you want that change, state it in the goal, name the "
        "file in allowed_files, or set the policy to report it. If not, give the agent what it lacked, and retry."
    )


FEATURE = Feature(
    "integrity",
    (
        AT_BIRTH.row(keep_asked),
        JUDGES.row(judge, told="integrity"),
        REVISE.row(revise, of=CATEGORIES),
        FIRES.row(fires, only=keeping(IntegrityFound)),
    ),
    events=("outcome.integrity",),
    advice={RULE: _advise},
    is_idle=always,  # an outcome with such places is not plain
)
