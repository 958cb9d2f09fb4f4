"""Refuses tests, written before their code, that import a module which no file of their campaign provides.

Their step passes if pytest collects the tests, or if only imports fail. This feature judges the errors that a
controller reports; it does not judge exit codes alone.
"""

from __future__ import annotations

from typing import Any

from schemas.base import FailureCategory
from schemas.step import PreviousFailure
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import REFUSALS, Failure, Feature, Judgement, always
from tasks.toolchain.collecting import TOOL, unexpected

SHOWN = 5


def refuse(_: UnitOfWork, seen: Judgement) -> Failure | None:
    """Return the failure of a success whose tests import a module that no file of the campaign provides; else None."""
    outcome, evidence = seen.outcome, seen.outcome.failure_evidence
    if not any(each.tool == TOOL and each.exit_code for each in outcome.verify or ()):
        return None
    wrong = unexpected((evidence and evidence.stack_trace_head) or "", seen.step.facts["collects"])
    return _failure(wrong) if wrong else None


def _failure(wrong: list[str]) -> dict[str, Any]:
    why = "Correct this import, or use a module that exists: no task of the campaign brings it."
    return PreviousFailure(
        category=FailureCategory.IMPORT_ERROR,
        trace=fit_evidence("\n".join(wrong[:SHOWN])),
        suggestion=fit_evidence(f"{wrong[0]}. {why}"),
    ).model_dump()


FEATURE = Feature("collecting", (REFUSALS.row(refuse, fact="collects"),), is_idle=always, end_fields=("collects",))
