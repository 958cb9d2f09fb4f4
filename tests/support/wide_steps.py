"""Steps that may change what the globs of their goal mean."""

from __future__ import annotations

from typing import Any

from schemas.step import PlannedStep
from tests.support.plans import a_step

GLOBS = ("src/**", "tests/**")


def a_wide_step(step_id: str = "a", *after: str, excluded: tuple[str, ...] = (), **fields: Any) -> PlannedStep:
    """A step that names one file, and may change what the goal's globs mean."""
    return a_step(step_id, *after, **fields).model_copy(
        update={"allowed_patterns": GLOBS, "excluded_patterns": excluded}
    )
