"""The errors of a planner's clients, alike over Redis and over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from schemas.envelope import FieldError, Problem
from tasks.base.errors import PlannerError


class Trouble(PlannerError):
    """A planner refused a request; `problem` has the reason."""

    status = 500
    event = "gateway_unavailable"  # log event of a controller that retries

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem

    @classmethod
    def of(cls, code: str, detail: str, errors: Sequence[FieldError] = ()) -> Self:
        """Make the trouble `code`."""
        return cls(Problem.of(code, detail, tuple(errors), cls.status))


class Refused(Trouble):
    """Waiting changes nothing about it."""


class WrongUse(Refused):
    """The request or a setting is invalid."""

    status = 422


class NotFound(Refused):
    """There is no such thing."""

    status = 404


class NoRight(Refused):
    """This user, or this key, may not do that."""


class Away(Trouble):
    """No answer for now; the same request may be sent again. `who` does not answer, because of `why`."""

    who = why = ""
    retry_after_s = 0.0  # not before this is over
