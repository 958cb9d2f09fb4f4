"""How tasks are drafted: the operator's settings that decisions read."""

from __future__ import annotations

from dataclasses import dataclass

from tasks.rules.strategy import Setting


@dataclass(frozen=True, slots=True)
class Options:
    """One value a setting: PLANNER_PLANNING_<NAME>."""

    max_attempts: int  # at least one is made
    strict: bool  # VALIDATION_MODE: an answer has to be right, not only of use
    fallback: bool  # FALLBACK: the template plan stands in for a draft that is of no use
    with_schema: bool  # SCHEMA_MODE: the schema stands in the prompt

    @classmethod
    def of(cls, setting: Setting) -> Options:
        """Read the options, with the settings' defaults for what is not there."""
        given = setting.options
        return cls(
            max_attempts=max(1, int(given.get("max_attempts", 2))),
            strict=given.get("validation_mode") == "strict",
            fallback=given.get("fallback", "template") == "template",
            with_schema=bool(given.get("schema_in_prompt", True)),
        )
