"""Which drafter plans a goal: what the goal asks for among those that the operator enabled, else the kind's default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from schemas.base import GoalKind
from schemas.envelope import FieldError
from tasks.text.fields import fit

if TYPE_CHECKING:
    from worker.settings.settings import Settings

NONE = "none"
USUAL = {GoalKind.TASK: NONE, GoalKind.CAMPAIGN: "queue", GoalKind.EVOLUTION: "queue"}  # the kinds that can use one


def choose(kind: GoalKind, asked: str | None, settings: Settings) -> str | FieldError:
    """Name the drafter of a goal of `kind`, or say why it cannot have the one that it asked for."""
    if kind not in USUAL:
        return NONE if asked in (None, NONE) else _refusal(f"A goal of the kind {kind} is planned without a drafter")
    name = asked or settings.drafter or USUAL[kind]
    enabled = (NONE, *(each for each in settings.drafters if each != NONE))
    if name in enabled:
        return name
    what = f"The drafter {fit(name, 64)} is" if asked else f"The drafter {name} of the kind {kind} is"
    return _refusal(f"{what} not enabled here; there are {', '.join(enabled)}")


def _refusal(sentence: str) -> FieldError:
    return FieldError(pointer="/drafter", code="drafter_not_enabled", message=f"{sentence}.")
