"""Steps that may change every file that the globs of their goal match."""

from __future__ import annotations

from typing import Any

from schemas.step import PlannedStep
from tests.support.plans import a_step

GLOBS = ("src/**", "tests/**")


def a_wide_step(step_id: str = "a", *after: str, excluded: tuple[str, ...] = (), **fields: Any) -> PlannedStep:
    """Return a step that names one file, and may change every file that the goal's globs match."""
    return a_step(step_id, *after, **fields).model_copy(
        update={"allowed_patterns": GLOBS, "excluded_patterns": excluded}
    )
