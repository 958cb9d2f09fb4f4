"""Errors of the decisions: one root; a class's docstring is its default message."""

from __future__ import annotations

from inspect import getdoc


class PlannerError(Exception):
    """The planner cannot do this."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or getdoc(type(self)))


class IllegalTransition(PlannerError):
    """This state machine has no such row."""


class UnknownCommand(PlannerError):
    """The catalogue has no contract for this command."""


EVERY_STEP = "*"  # among the ids of NeedsSteps: all steps of the plan
LEASES = "@"  # the same: the contents of the leases of the steps in the snapshot


class NeedsSteps(PlannerError):
    """The decision touches steps, or notes, that the snapshot does not hold."""

    def __init__(self, step_ids: frozenset[str]) -> None:
        super().__init__()
        self.step_ids = step_ids


class NeedsClaims(PlannerError):
    """The decision needs the plans that claim files, and the snapshot does not have them.

    `files` are the files of the decision, in addition to the plan's own. With `deep` it also needs the files that the
    waiting plans of these files wait for.
    """

    def __init__(self, files: frozenset[str], *, deep: bool) -> None:
        super().__init__()
        self.files = files
        self.deep = deep


class Overtaken(PlannerError):
    """Another worker wrote first; its version applies."""
