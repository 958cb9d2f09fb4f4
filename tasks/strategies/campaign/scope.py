"""What a campaign is planned within: its goal, its files, its tools, and who writes its tasks."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.goal import Goal
from tasks.rules.strategy import Growth
from tasks.strategies.campaign.state import Known, State, Terms
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.catalogue_snapshot import catalogue_of
from tasks.toolchain.files import Role, role_of


@dataclass(frozen=True, slots=True)
class Scope:
    """What is the same from the first draft of a campaign to its end."""

    goal: Goal
    objective: str
    allowed: tuple[str, ...]
    catalogue: Catalogue
    terms: Terms


def scope_of(growth: Growth, state: State, catalogue: Catalogue | None = None) -> Scope:
    """See what a campaign that runs is planned within."""
    objective, goal = (growth.document or {}).get("objective"), growth.goal
    words = objective if isinstance(objective, str) else goal.goal
    return Scope(
        goal, words, goal.allowed_files, catalogue or catalogue_of(growth.tools, growth.policy_version), state.terms
    )


def chosen(known: Known, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """List the files that may change: where a person chose some, only these and tests."""
    if not known.narrowed:
        return allowed
    meant = {*(each.path for each in known.candidates), *known.tests}
    return tuple(path for path in allowed if path in meant or role_of(path) is Role.TEST)
