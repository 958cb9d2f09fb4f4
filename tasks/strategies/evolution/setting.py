"""How evolution goals are planned: seed 004's settings that decisions read, with its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from schemas.evolution import ValidationMode

TRAJECTORY = "trajectory_"  # how the operator's options of these names begin, which ours leave out


@dataclass(frozen=True, slots=True)
class Planning:
    """One value a setting; the names in the comments go on after `WORKER_PLANNING_`."""

    max_attempts: int = 2  # MAX_ATTEMPTS; at least one is made
    validation_mode: ValidationMode = ValidationMode.LENIENT  # VALIDATION_MODE; a goal may ask for another
    schema_in_prompt: bool = True  # CODEX_SCHEMA_MODE: false where a backend is known to enforce the schema itself
    block_size: int = 8  # TRAJECTORY_BLOCK_SIZE, commits
    max_chunks: int = 3  # TRAJECTORY_MAX_CHUNKS
    max_raw_steps: int = 6  # TRAJECTORY_MAX_RAW_STEPS
    summary_model: str | None = None  # TRAJECTORY_SUMMARY_MODEL: whose summaries are used; None: anybody's
    summary_max_chars: int = 800  # TRAJECTORY_SUMMARY_MAX_CHARS; at least 64


DEFAULTS = Planning()


def planning_of(options: Mapping[str, Any]) -> Planning:
    """Read the operator's options; what is not set keeps its default, and those of other kinds are left alone."""
    own = {name.removeprefix(TRAJECTORY): value for name, value in options.items()}
    known = {each.name: own[each.name] for each in fields(Planning) if each.name in own}
    mode = ValidationMode(known.get("validation_mode", DEFAULTS.validation_mode))
    return Planning(**known | {"validation_mode": mode})
