"""Failures that existed at the commit that a plan began with: tests are excused, and added checks are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schemas.plain_outcome import PlainOutcome
from schemas.stored import PlanRecord
from schemas.stored.features import Reproduced
from tasks.features.baseline import excuses, red_checks, reproduction
from tasks.policy.pipeline import (
    AFTER_END,
    AT_BIRTH,
    BEFORE_START,
    EXPIRED,
    JUDGES,
    LIMITS,
    PRE_STEP_ENDED,
    SPEC_FIELDS,
    Feature,
    keeping,
    limited,
)
from tasks.rules import budget


def _is_idle_about(plan: PlanRecord, facts: Mapping[str, Any], outcome: PlainOutcome) -> bool:
    return red_checks.notes_nothing(plan, facts, outcome) and excuses.found_nothing(facts, outcome)


FEATURE = Feature(
    "baseline",
    (
        LIMITS.row(excuses.limits_of),
        AT_BIRTH.row(excuses.keep_goals_tests),
        JUDGES.row(reproduction.judge, fact="at_base"),
        JUDGES.row(excuses.judge, only=limited(budget.EXCUSES)),
        AFTER_END.row(red_checks.note_created),
        PRE_STEP_ENDED.row(excuses.judge_waiting),
        SPEC_FIELDS.row(excuses.given_to, fact="inserted_by"),
        SPEC_FIELDS.row(reproduction.given_to, fact="at_base"),
        EXPIRED.row(reproduction.expire, fact="at_base"),
        BEFORE_START.row(red_checks.drop_known, only=keeping(Reproduced), fact="quick_checks"),
    ),
    is_idle=lambda plan: not plan.head.limits.get(budget.EXCUSES),
    is_idle_about=_is_idle_about,
    advice={"passes_at_base": reproduction.advise, "already_fixed": reproduction.advise_on_fixed},
    end_fields=("inserted_by", "at_base"),
    start_fields=("inserted_by", "at_base", "quick_checks"),
)
