"""A model whose fields are read from variables of the environment, if they are not given."""

from __future__ import annotations

import os
from typing import Any

from pydantic import AliasChoices, BaseModel, ConfigDict, model_validator

PREFIX = "PLANNER_"


class FromEnvironment(BaseModel):
    """Base of the settings: each field is read from the variable PLANNER_<NAME>, or from one of its aliases."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: dict[str, Any]) -> dict[str, Any]:
        found = dict(given)
        for name, field in cls.model_fields.items():
            names = cls.variables(name)
            variable = next((each for each in names if each in os.environ), None)
            if variable and name not in given:
                found[names[0] if field.validation_alias else name] = os.environ[variable]
        return found

    @classmethod
    def variables(cls, name: str) -> tuple[str, ...]:
        """Return the variables that set a field, its own first."""
        alias = cls.model_fields[name].validation_alias
        return tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (PREFIX + name.upper(),)
