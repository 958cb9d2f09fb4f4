"""`PLANNER_*`, read once; a wrong value stops the start with one sentence."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from tasks.base.errors import PlannerError
from tasks.text.forbidden_paths import Forbidden, forbid
from worker.settings import credentials, drafting, oidc_file, telemetry, tools_file
from worker.settings.drafting import DraftingSettings
from worker.settings.environment import PREFIX
from worker.settings.service import ServiceSettings
from worker.settings.telemetry import TelemetrySettings

ELSEWHERE = frozenset(f"PLANNER_TEST_{name}" for name in ("REDIS_SERVER", "NODE_MODULES", "MODEL_PYTHON", "PROGRAMS"))
URLS = frozenset({"PLANNER_REDIS_URL", "PLANNER_BROKER_URL"})  # shown without their passwords
PASSWORD = re.compile("//.*@")


class WrongSettings(PlannerError):
    """The environment holds settings that cannot be used."""


class Settings(TelemetrySettings, DraftingSettings, ServiceSettings):
    """What an operator can set; every field is the variable PLANNER_<NAME>."""

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url

    @property
    def state(self) -> Path:
        """The folder of `state_dir`; one of this user's own unless set.

        Names in a temporary directory are anybody's.
        """
        return self.state_dir or Path(tempfile.gettempdir()) / f"planner-{os.getuid()}"

    @property
    def private(self) -> tuple[Path, ...]:
        """The paths that no agent and no verification may reach.

        What is there is the planner's alone. These are the folders of state, of the embedded server and of kept drafts,
        and the files of secrets.
        """
        kept = (
            self.state,
            self.data_dir,
            self.planning_debug_dir,
            self.secret_file,
            self.webhooks_file,
            self.redis_key_file,
        )
        return (*(path.absolute() for path in kept if path), *credentials.files())

    @property
    def retention_s(self) -> int:
        """Seconds until the keys of an ended plan go."""
        return int(self.retention_days * 86_400)

    @property
    def given_redis_url(self) -> str | None:
        """The server's address where it was set; None for the default."""
        return self.redis_url if "redis_url" in self.model_fields_set else None

    @property
    def forbidden(self) -> Forbidden:
        """The paths that no goal may allow."""
        return forbid((*self.forbidden_paths, *self.also_forbidden_paths))


def load() -> Settings:
    """Read the settings; raises WrongSettings with one sentence per wrong value."""
    fields = list(Settings.model_fields)
    known = {
        *ELSEWHERE,
        *credentials.FILES,
        credentials.DESCRIPTOR,
        *(each for name in fields for each in variables(name)),
    }
    wrong = []
    for name in os.environ:
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, [variables(field)[0] for field in fields], 1)
            wrong.append(f"{name} is not a setting" + (f"; did you mean {near[0]}?" if near else "."))
    try:
        settings = Settings(**_secrets())
    except credentials.WrongSecrets as error:
        wrong += str(error).splitlines()
    except ValidationError as error:
        wrong += [_sentence_of(each) for each in error.errors()]
    else:
        try:
            tools_file.catalogue(settings.tools_file)
        except tools_file.WrongTools as error:
            wrong += [f"{PREFIX}TOOLS_FILE: {sentence}" for sentence in str(error).splitlines()]
        try:
            oidc_file.issuers(settings.oidc_file)
        except oidc_file.WrongIssuers as error:
            wrong += [f"{PREFIX}OIDC_FILE: {sentence}" for sentence in str(error).splitlines()]
        wrong += drafting.missing(settings)
        wrong += telemetry.missing(settings)
    if wrong:
        raise WrongSettings("\n".join(wrong))
    return settings


def _secrets() -> dict[str, Any]:
    """Gather the settings that are secrets, by their fields."""
    read = credentials.read()
    names = credentials.VARIABLES.items()
    found = {field: next((read[name] for name in variables if name in read), None) for field, variables in names}
    return {field: value for field, value in found.items() if value is not None}


def variables(name: str) -> tuple[str, ...]:
    """Name the variables that set a field, its own first."""
    return Settings.variables(name)


def _sentence_of(error: ErrorDetails) -> str:
    """Say what is wrong with a variable, without its value where that is a secret."""
    place = str(error["loc"][0])
    variable = place if place.isupper() else PREFIX + place.upper()
    shown = "" if variable in credentials.NAMES - URLS else f", not {PASSWORD.sub('//', str(error['input']))!r}"
    return f"{variable}: {error['msg'].removeprefix('Value error, ')}{shown}."
