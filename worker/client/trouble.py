"""The errors of a planner's clients, alike over Redis and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from schemas.envelope import FieldError, Problem
from tasks.base.errors import PlannerError


class Trouble(PlannerError):
    """A request to a planner failed; `problem` has the reason."""

    status = 500
    event = "gateway_unavailable"  # log event of a controller that retries

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @classmethod
    def of(cls, code: str, detail: str, errors: Sequence[FieldError] = ()) -> Self:
        """Return an error with this code, this text, and errors of single fields."""
        return cls(Problem.of(code, detail, tuple(errors), cls.status))


class Refused(Trouble):
    """The planner refused the request, and would refuse it again later."""


class WrongUse(Refused):
    """The request or a setting is invalid."""

    status = 422


class NotFound(Refused):
    """The requested plan, step or other object does not exist."""

    status = 404


class NoRight(Refused):
    """The API key or the user of Redis has no right to this request."""


class Away(Trouble):
    """The server `who` does not answer for now, because of `why`; the same request may be sent again."""

    who = why = ""
    retry_after_s = 0.0  # not before this is over
