"""Imports of a missing module: one of the repository itself, one that a manifest declares, or an undeclared one.

If the module is the repository's own, or a misspelling of an existing one, the change is wrong, and the next attempt
learns it. For a declared module the controller runs its setup before the next attempt, and before a step that looks at
the dependencies. The planner has no command for that. For an undeclared module a person is asked, once for each module
of a step. Nothing is installed by a name from a trace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.step import PlannedStep
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.narrowing import Evidence
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import AT_BIRTH, JUDGES, REVISE, Feature, Judgement, always
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import DEPENDENCIES, make_pre_step, runs_at_base
from tasks.policy.revision import Revision
from tasks.policy.waits import ask_approval
from tasks.rules.strategy import Draft
from tasks.text.fields import MAX_GUIDANCE
from tasks.toolchain.catalogue import catalogue_of
from tasks.toolchain.modules import (
    MOST_NAMES,
    Missing,
    Origin,
    aliases_in,
    meant_by,
    missing_in,
    modules_of,
    names_in,
    origin_of,
)

NOTE = "modules"
SETUP_AGAIN, OWN, MISSPELT = "setup_again", "own_module", "misspelt_module"  # the rules of revisions


def keep_names(unit: UnitOfWork, _: PlanSeed, goal: Goal, __: Draft) -> None:
    """Store the module names that the manifests declare, and the names of the repository's own modules.

    Without a manifest nothing is stored. If there are too many names to store, no module counts as undeclared.
    """
    if goal.context.manifests:
        own, declared = modules_of((*goal.context.files, *goal.allowed_files)), names_in(goal.context.manifests)
        own = [*aliases_in(goal.context.manifests), *own]
        kept = {"own": own[:MOST_NAMES], "declared": declared[:MOST_NAMES]}
        unit.keep_note(NOTE, {**kept, "whole": max(len(own), len(declared)) <= MOST_NAMES})


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Ask a person about a module that no manifest declares. Raises NeedsSteps if the snapshot lacks the note."""
    failure, step = seen.failure, seen.step
    if failure is None or seen.handed_back or seen.is_excused or not _may_ask(step.facts):
        return False
    found = _origin(unit, f"{failure['trace'] or ''}\n{_said(seen.outcome)}")
    if found is None or found[1] is not Origin.UNDECLARED or _meant(unit, found[0]):
        return False
    name, asked = found[0].name, unit.plan.missing_modules.asked
    if asked.get(step.step_id) == name:
        return False  # a person was asked, and that did not help: the failure counts
    asked[step.step_id] = name
    unit.plan.dirty.add("live")
    why = f"the module {name} is not there, and no manifest declares it"
    told = f"{why}: a person was asked. Use modules that the project declares, unless it is there now."
    step.status.previous = {**failure, "suggestion": fit_evidence(told)}
    unit.move_step(step, "ACTIVE", "retried", why)
    ask_approval(unit, step, f"{why}: declare and install it, or approve another attempt without it")
    return True


def revise(unit: UnitOfWork, step: Step, was: PlannedStep, _: Evidence) -> Revision | None:
    """Ask for the setup again if the module is declared; add guidance if the repository has the module."""
    if not _may_ask(step.facts):
        return None
    previous = step.status.previous or {}
    found = _origin(unit, f"{previous.get('trace') or ''}\n{previous.get('suggestion') or ''}")
    if found is None:
        return None
    missing, origin = found
    meant = _meant(unit, missing) if origin is Origin.UNDECLARED else None
    if (origin is Origin.OWN or meant) and was.mode is Mode.PATCH:
        why = f"is not there: {meant} is, so write that" if meant else "is the repository's own: the change broke it"
        guidance = f"{was.guidance or ''} The module {missing.name} {why}."
        told = was.model_copy(update={"guidance": guidance.strip()})
        is_new = missing.name not in (was.guidance or "") and len(guidance) <= MAX_GUIDANCE
        if not is_new:
            return None
        return Revision(told, None, (MISSPELT,)) if meant else Revision(told, None, (OWN,))
    if origin is not Origin.DECLARED or was.setup:
        return None
    taken, catalogue = unit.plan.structure.taken, catalogue_of(unit.plan.head.tools)
    before = make_pre_step(DEPENDENCIES, was, (), taken, catalogue)
    revised = was.model_copy(update={"setup": True})
    if before is not None:
        before = before.model_copy(update={"setup": True})
        revised = revised.model_copy(update={"depends_on": (*was.depends_on, before.step_id)})
    return Revision(revised, before, (SETUP_AGAIN,))


def _may_ask(facts: Mapping[str, Any]) -> bool:
    return not facts["inserted_by"] and not runs_at_base(facts)


def _said(outcome: Outcome) -> str:
    evidence = outcome.failure_evidence
    return (evidence.stack_trace_head if evidence else None) or outcome.error_message or ""


def _origin(unit: UnitOfWork, text: str) -> tuple[Missing, Origin] | None:
    missing = missing_in(text)
    if missing is None or not (known := unit.note(NOTE)):
        return None
    origin = origin_of(missing, known["own"], known["declared"])
    return None if origin is Origin.UNDECLARED and not known["whole"] else (missing, origin)


def _meant(unit: UnitOfWork, missing: Missing) -> str | None:
    known = unit.note(NOTE)
    return meant_by(missing, known["own"], known["declared"])


FEATURE = Feature(
    "missing_modules",
    (AT_BIRTH.row(keep_names), JUDGES.row(judge, of=(C.IMPORT_ERROR,)), REVISE.row(revise, of=(C.IMPORT_ERROR,))),
    is_idle=always,  # a failed import is no plain success
)
