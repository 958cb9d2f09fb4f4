"""`PLANNER_*`, read once; a wrong value stops the start with one sentence (STYLE.md rule 9)."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AliasChoices, Field, StringConstraints, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.goal import MAX_GOAL_WITH_STEPS_BYTES
from tasks.errors import PlannerError
from worker import tools_file

PREFIX = "PLANNER_"
ELSEWHERE = frozenset({"PLANNER_TEST_REDIS_SERVER", "PLANNER_TEST_NODE_MODULES"})

RedisUrl = Annotated[str, StringConstraints(pattern=r"^(redis|rediss|unix)://.")]


class WrongSettings(PlannerError):
    """The environment holds settings that cannot be used."""


class Settings(BaseSettings):
    """What an operator can set; every field is the variable PLANNER_<NAME>."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    redis_url: RedisUrl = Field(
        default="redis://localhost:6379/0", description="Redis or Valkey that keeps plans and streams"
    )
    broker_url: RedisUrl | None = Field(default=None, description="Celery's broker; the same server unless set")
    partitions: int = Field(default=1, ge=1, le=256, description="partitions of plans and outcomes")
    max_goal_bytes: int = Field(default=MAX_GOAL_WITH_STEPS_BYTES, ge=1024, description="largest goal with steps")
    max_failures: int = Field(default=5, ge=1, description="decisions about an entry that may fail before it is dead")
    retention_days: float = Field(default=30, gt=0, description="days until the keys of an ended plan go")
    claim_idle_s: float = Field(default=30, ge=1, description="seconds until entries of a dead worker are taken over")
    data_dir: Path = Field(default=Path(".planner"), description="where the embedded server keeps its data")
    tools_file: Path | None = Field(default=None, description="TOML file of contracts to add to the tool catalogue")
    allow_unsafe_redis: bool = Field(default=False, description="start without AOF or with evicting keys all the same")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="least level logged")
    sentry_dsn: str | None = Field(
        default=None,
        validation_alias=AliasChoices("SENTRY_DSN", "sentry_dsn"),
        description="where errors are reported; nothing is without it",
    )

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url

    @property
    def retention_s(self) -> int:
        """Seconds until the keys of an ended plan go."""
        return int(self.retention_days * 86_400)


def load() -> Settings:
    """Read the settings; raises WrongSettings with one sentence per wrong value."""
    wrong = [_unknown(name) for name in os.environ if name.startswith(PREFIX) and not _known(name)]
    try:
        settings = Settings()
    except ValidationError as error:
        wrong += [f"{PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}, not {e['input']!r}." for e in error.errors()]
    else:
        wrong += _wrong_tools(settings)
    if wrong:
        raise WrongSettings("\n".join(wrong))
    return settings


def _wrong_tools(settings: Settings) -> list[str]:
    try:
        tools_file.catalogue(settings.tools_file)
    except tools_file.WrongTools as error:
        return [f"{PREFIX}TOOLS_FILE: {sentence}" for sentence in str(error).splitlines()]
    return []


def _known(name: str) -> bool:
    field = Settings.model_fields.get(name.removeprefix(PREFIX).lower())
    return name in ELSEWHERE or (field is not None and field.validation_alias is None)


def _unknown(name: str) -> str:
    names = [PREFIX + field.upper() for field in Settings.model_fields]
    near = difflib.get_close_matches(name, names, 1)
    return f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else ".")
