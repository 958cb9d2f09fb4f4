"""Why a planner did not do what it was asked, told alike whichever way it was asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from schemas.envelope import FieldError, Problem
from tasks.base.errors import PlannerError


class Trouble(PlannerError):
    """A planner did not do what it was asked; `problem` says why."""

    status = 500
    event = "gateway_unavailable"  # what a controller logs that asks again

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
    """What was asked, or a setting, cannot be meant like that."""

    status = 422


class NotFound(Refused):
    """There is no such thing."""

    status = 404


class NoRight(Refused):
    """This user, or this key, may not do that."""


class Away(Trouble):
    """Nobody answers for now; the same may be asked again. `who` does not answer, because of `why`."""

    who = why = ""
    retry_after_s = 0.0  # not before this is over
