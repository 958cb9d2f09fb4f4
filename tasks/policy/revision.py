"""Revises a failed step before its next attempt, by the rows of its policy, and changes its plan accordingly.

A step and the facts of its failure give the revised step and perhaps one before it. A list of files can only shrink. A
verification can only be aimed at a test that it runs already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.base import PlanState as P
from schemas.outcome import Outcome
from schemas.step import PlannedStep
from schemas.stored import PlanRecord
from tasks.base.policy import BUILT_IN, Policy
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import halt_rules
from tasks.policy.advice_facts import retries
from tasks.policy.flips import keep_verification
from tasks.policy.narrowing import Evidence, advise, change_less, evidence_of, narrow_files, narrow_focus
from tasks.policy.pipeline import REVISE
from tasks.policy.pre_steps import MEND, PRE_STEPS, PreStep, make_pre_step
from tasks.rules import budget
from tasks.rules.validation import STEP_CHECKS, Surroundings, injections
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, catalogue_of
from tasks.toolchain.command_lines import render

ATTEMPTS = 3  # columns of the table; later failures are treated as the third


@dataclass(frozen=True, slots=True)
class Revision:
    """A revised step, the step to insert before it, and the names of the strategies that revised it."""

    step: PlannedStep
    before: PlannedStep | None
    strategies: tuple[str, ...]
    parts: tuple[PlannedStep, ...] = ()  # of the step's change: they go before it, in sequence

    def diff(self, was: PlannedStep) -> dict[str, Any]:
        """Return the changed fields, each with its old and new value, and the id of the inserted step."""
        old, new = was.model_dump(mode="json"), self.step.model_dump(mode="json")
        changed: dict[str, Any] = {name: [old[name], new[name]] for name in old if old[name] != new[name]}
        added = {"added": [part.step_id for part in self.parts]} if self.parts else {}
        return changed | ({"inserted": self.before.step_id} if self.before else {}) | added


GUIDANCE = MappingProxyType(
    {
        C.TEST_REGRESSION: "The last attempt made tests fail: begin with those in context.previous_failure.",
        C.TEST_TIMEOUT: "The last attempt ran out of time: look for code that does not end.",
        C.FLAKY_TEST: "The last attempt met a test that does not always give the same result.",
        C.COMPILATION_ERROR: "The last attempt did not compile: read the message in context.previous_failure.",
        C.TYPE_ERROR: "The last attempt had type errors: read them in context.previous_failure.",
        C.LINT_ERROR: "The last attempt broke lint rules: read them in context.previous_failure.",
        C.NO_CHANGE: "The last attempt changed no file: make the change that the step asks for.",
        C.NO_PROOF: "The last attempt passed without a whole report of its tests: let each run to its end.",
        C.IMPORT_ERROR: "The last attempt imported a missing module: use only modules that the project has.",
        C.UNKNOWN: "The last attempt failed for an unknown reason: make the smallest change that the step asks for.",
    }
)


def add_context(step: PlannedStep, evidence: Evidence, _: Catalogue) -> PlannedStep:
    """Add guidance of the planner for this kind of failure; the evidence itself is in the attempt's context."""
    return advise(step, GUIDANCE.get(evidence.category, ""))


def narrow_verification(step: PlannedStep, evidence: Evidence, catalogue: Catalogue) -> PlannedStep:
    """Run the first failing test before the whole verification: a wrong change fails sooner, a right one passes all.

    A step that only verifies stays as it is.
    """
    if step.mode is Mode.TEST:
        return step
    aimed = (catalogue.focus(tool, evidence.tests) for tool in step.verify_tools)
    first = tuple(tool for tool in aimed if tool and tool not in step.verify_tools)
    tools = (*first, *step.verify_tools)
    return step.model_copy(update={"verify_tools": tools, "verify": render(tools)}) if first else step


def double_time(step: PlannedStep, _: Evidence, __: Catalogue) -> PlannedStep:
    """Double the time of the verification; the policy does this only after the first failure."""
    tools = tuple(tool.model_copy(update={"timeout_s": 2 * tool.timeout_s}) for tool in step.verify_tools)
    return step.model_copy(update={"verify_tools": tools})


RevisionStrategy = Callable[[PlannedStep, Evidence, Catalogue], PlannedStep] | PreStep

# The strategies that the rows of a policy name.
STRATEGIES: Mapping[str, RevisionStrategy] = MappingProxyType(
    {
        **{each.__name__: each for each in (add_context, narrow_verification, narrow_files, narrow_focus, double_time)},
        **PRE_STEPS,
    }
)


def revise(unit: UnitOfWork, step: Step, failure: Mapping[str, Any], outcome: Outcome) -> bool:
    """Revise a failed step that is tried again; returns whether it now waits for a step before it.

    The plan goes EXECUTING->REVISING->EXECUTING within one commit.
    """
    plan, category = unit.plan, failure["category"]
    was, evidence = PlannedStep.model_validate(step.facts), evidence_of(failure, outcome)
    catalogue = catalogue_of(plan.head.tools)
    nth = step.status.failures
    if was.mode is Mode.TEST and evidence.category is C.TEST_TIMEOUT:
        nth = halt_rules.timeouts_of(plan, step)
    found = next((made for revises in REVISE if (made := revises(unit, step, was, evidence))), None) or revision_of(
        was, evidence, nth, plan.structure.taken, catalogue, unit.snapshot.policy
    )
    if found is None:  # the next attempt is never the same again
        told = add_context(was, evidence, catalogue)
        less = change_less(was, category, step.status.attempt)
        found = Revision(less, None, ("change_less",)) if told == was else Revision(told, None, ("add_context",))
    is_mended = found.strategies == (MEND,)
    if is_mended:
        plan.counters.consecutive -= 1
    carry_out(unit, step, found, category, failure if is_mended else None)
    return found.before is not None or bool(found.parts)


def carry_out(
    unit: UnitOfWork,
    step: Step,
    found: Revision,
    category: str,
    previous: Mapping[str, Any] | None = None,
    why: str = "",
) -> None:
    """Apply the revision `found` to `step`, and log it.

    `previous` becomes the previous failure of the step that is inserted before it. The logged reason is `why`; without
    `why` it is the failure's `category`.
    """
    plan, status = unit.plan, step.status
    was = PlannedStep.model_validate(step.facts)
    plan.revision += 1
    halt_rules.remember_revised(plan, step)
    unit.move_plan(P.REVISING.value, "revising", reason=why or f"{step.step_id} failed with {category}")
    if found.step.verify != was.verify:
        keep_verification(unit, step)
    unit.rewrite(step, found.step)
    if found.before:  # it is ready to start in the place of the step, which waits for it
        unit.insert([found.before], status.index, {found.before.step_id: [step.step_id]})
        unit.snapshot.steps[found.before.step_id].status.previous = dict(previous) if previous else None
        status.unmet += 1
        if unit.strategy_state:
            unit.keep_strategy_state(ids=[*unit.strategy_state["ids"], found.before.step_id])
    if found.parts:
        _insert_parts(unit, step, found.parts)
    unit.move_plan(P.EXECUTING.value, "revised")
    first = found.parts[0] if found.parts else found.before
    data = {
        "step_id": step.step_id,
        "attempt": status.attempt,
        "revision": plan.revision,
        "policy_version": plan.head.policy_version,
        "rule": " + ".join(found.strategies),
        "value": status.failures,
        "limit": retries(step, category, plan.counters.failed, unit.snapshot.policy),
        "limit_name": "retry_limit",
        "events": [{"at": unit.at, "step_id": step.step_id, "attempt": status.attempt, "category": category}],
        "unblock": _what_is_next(unit, first.step_id if first else None),
        "diff": found.diff(was),
    }
    unit.revisions.append({**data, "category": category})
    unit.emit("step.revised", data, category)


def _what_is_next(unit: UnitOfWork, before: str | None) -> str:
    """Return how a revised step can go on; `before` is the step inserted before it. Its plan is live."""
    if unit.plan.paused:
        return f"Resume the plan, which was paused ({unit.plan.paused})."
    if unit.is_stopped:
        return f"Wait until the plan is released: {unit.plan.held}."
    if not unit.snapshot.active and (name := budget.first_exhausted(unit.plan)):
        return f"Top the plan up with {name}: nothing of them is left for another attempt."
    return f"Finish {before}." if before else "Nothing: the next attempt starts by itself."


def _insert_parts(unit: UnitOfWork, step: Step, parts: tuple[PlannedStep, ...]) -> None:
    """Insert the parts of `step` before it; each part gets the step's signature, repeats and approval."""
    status, ids = step.status, [part.step_id for part in parts]
    behind = dict(zip(ids, ([name] for name in (*ids[1:], step.step_id)), strict=True))
    unit.insert(parts, status.index, behind)
    for name in ids:
        part = unit.snapshot.steps[name].status
        part.signature, part.repeats = status.signature, status.repeats
        part.approval = "" if status.approval == "asked" else status.approval
    status.unmet += 1
    unit.plan.structure.taken += ids
    if unit.strategy_state:
        unit.keep_strategy_state(ids=[*unit.strategy_state["ids"], *ids])


def revision_of(
    step: PlannedStep,
    evidence: Evidence,
    nth: int,
    taken: Collection[str] = (),
    catalogue: Catalogue = CATALOGUE,
    policy: Policy = BUILT_IN,
) -> Revision | None:
    """Return the revision of `step` after its nth failure, by the policy's table; None if the table changes nothing.

    `catalogue` is the catalogue of the plan, and `taken` are ids of its steps.
    """
    row = policy.revisions.get(evidence.category)
    if row is None or step.inserted_by:  # an inserted step has no pre-step, and is never revised
        return None
    revised, before, done = step, None, []
    for name in row[min(nth, ATTEMPTS) - 1]:
        strategy = STRATEGIES[name]
        if isinstance(strategy, PreStep):
            before = make_pre_step(strategy, step, evidence.tests, taken, catalogue)
            if before and _is_sound(before, step, catalogue):
                revised = revised.model_copy(update={"depends_on": (*revised.depends_on, before.step_id)})
                done.append(name)
            else:
                before = None
        elif (changed := strategy(revised, evidence, catalogue)) != revised and _is_sound(changed, step, catalogue):
            revised = changed
            done.append(name)
    return Revision(revised, before, tuple(done)) if done else None


def has_room(plan: PlanRecord) -> bool:
    """Return whether the plan may have another step."""
    most = plan.limits["max_steps"]
    return most is None or sum(plan.counts.values()) < most


def _is_sound(made: PlannedStep, origin: PlannedStep, catalogue: Catalogue) -> bool:
    """Return whether the validator finds no new fault compared with `origin`, and no file was added."""
    faults, known = (faults_of(step, origin, catalogue) for step in (made, origin))
    return faults <= known and set(made.allowed_files) <= set(origin.allowed_files)


def faults_of(step: PlannedStep, origin: PlannedStep, catalogue: Catalogue) -> set[tuple[str, str]]:
    """Return the pointers and codes that the validator finds in `step`, if it may touch the files of `origin`."""
    ids = Counter({step.step_id, *step.depends_on})
    around = Surroundings(frozenset(origin.allowed_files), ids, catalogue)
    found = {(pointer, code) for check in STEP_CHECKS for pointer, code, _ in check(step, around)}
    return found | {(error.pointer, error.code) for error in injections((step,))}
