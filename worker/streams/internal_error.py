"""A goal that cannot be planned because of a defect of the planner, as distinct from a failure that passes."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

from redis.exceptions import DataError, RedisError

from schemas.envelope import FieldError, Problem, field_error
from tasks.base.errors import Overtaken
from worker.store.functions import FunctionsMissing
from worker.store.policies import PolicyUnreadable

log = logging.getLogger("planner.decompose")

# What is tried again: the server, the system and other workers may do better next time.
PASSING = (RedisError, OSError, MemoryError, FunctionsMissing, Overtaken, PolicyUnreadable)
SENTENCE = (
    "The planner failed while it made the plan. This is a defect of the planner, not of the goal. "
    "Give the id {} to those who run the planner: its log names the cause under this id. "
    "Send the goal again once they have repaired it."
)


def is_passing(error: Exception) -> bool:
    """Return whether the error may pass by itself, so that the same goal may succeed later."""
    return isinstance(error, PASSING) and not isinstance(error, DataError)


def report_failure(error: Exception, entry: str = "", goal_id: str = "", plan_id: str = "") -> Problem:
    """Log a defect that was met while a goal was planned; returns the problem for the sender of the goal.

    Both have the same id.
    """
    failure_id = secrets.token_hex(6)
    named = {"failure_id": failure_id, "entry": entry, "goal_id": goal_id, "plan_id": plan_id}
    log.error("goal failed", extra={name: value for name, value in named.items() if value}, exc_info=error)
    return _problem(field_error("", "internal_error", SENTENCE.format(failure_id)))


def problem_of(halt: Mapping[str, Any] | None) -> Problem | None:
    """Return the problem of a plan that a defect of the planner ended, from its `halt`; None for any other plan."""
    if halt is None or halt["reason"] != "internal_error":
        return None
    return _problem(FieldError.model_validate(halt["evidence"]["errors"][0]))


def _problem(error: FieldError) -> Problem:
    return Problem.of(error.code, error.message, (error,), status=500)
