"""What was red at the commit that a plan began with: tests are excused, and checks that nobody asked for dropped."""

from __future__ import annotations

from tasks.features.baseline import excuses, red_checks
from tasks.policy.pipeline import (
    AFTER_END,
    AT_BIRTH,
    JUDGES,
    LIMITS,
    PRE_STEP_ENDED,
    SPEC_FIELDS,
    Feature,
    limited,
)
from tasks.rules import budget

FEATURE = Feature(
    "baseline",
    (
        LIMITS.row(excuses.limits_of),
        AT_BIRTH.row(excuses.keep_goals_tests),
        JUDGES.row(excuses.judge, only=limited(budget.EXCUSES)),
        AFTER_END.row(red_checks.note_created),
        PRE_STEP_ENDED.row(excuses.judge_waiting),
        SPEC_FIELDS.row(excuses.given_to, fact="inserted_by"),
    ),
    is_idle=lambda plan: not plan.head.limits.get(budget.EXCUSES),
    is_idle_about=red_checks.notes_nothing,
    end_fields=("inserted_by",),
    start_fields=("inserted_by",),
)
