"""`PLANNER_*`, read once; a wrong value stops the start with one sentence."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, SettingsConfigDict

from schemas.goal import MAX_GOAL_WITH_STEPS_BYTES
from tasks.base.errors import PlannerError
from tasks.text.forbidden_paths import FORBIDDEN_NAMES, Forbidden, forbid
from worker.settings import credentials, oidc_file, tools_file
from worker.settings.types import (
    Argv,
    CheckNames,
    DrafterName,
    DrafterNames,
    Grants,
    Names,
    Networks,
    OutputName,
    RedisUrl,
    Variables,
    Weights,
    Words,
)

PREFIX = "PLANNER_"
ELSEWHERE = frozenset({"PLANNER_TEST_REDIS_SERVER", "PLANNER_TEST_NODE_MODULES", "PLANNER_TEST_MODEL_PYTHON"})
URLS = frozenset({"PLANNER_REDIS_URL", "PLANNER_BROKER_URL"})  # shown without their passwords
PASSWORD = re.compile("//.*@")
PLANNING = "planning_"
OURS = frozenset({"planning_backend", "planning_timeout_seconds", "planning_debug_dir"})  # no business of a strategy


def _planning(name: str) -> AliasChoices:
    """The variable of a planning setting, and its other name, `WORKER_*`."""
    return _old(f"PLANNING_{name}", name)


def _old(ours: str, theirs: str) -> AliasChoices:
    return AliasChoices(f"{PREFIX}{ours}", f"WORKER_PLANNING_{theirs}")


class WrongSettings(PlannerError):
    """The environment holds settings that cannot be used."""


class Settings(BaseSettings):
    """What an operator can set; every field is the variable PLANNER_<NAME>."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid", populate_by_name=True)

    redis_url: RedisUrl = Field(
        default="redis://localhost:6379/0", description="Redis or Valkey that keeps plans and streams"
    )
    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$",
        description="a gateway that commands and controllers ask, in place of PLANNER_REDIS_URL",
    )
    api_key: SecretStr | None = Field(default=None, description="the key that it is shown, `pk_...`")
    id_token: SecretStr | None = Field(
        default=None,
        description="an OIDC token of GitLab CI, which the gateway exchanges for a key;"
        " a job of GitHub Actions that may write `id-token` asks for one itself",
    )
    oidc_audience: str | None = Field(
        default=None, description="the audience that such a job asks for; PLANNER_URL unless set"
    )
    broker_url: RedisUrl | None = Field(default=None, description="Celery's broker; the same server unless set")
    partitions: int = Field(default=1, ge=1, le=256, description="partitions of plans and outcomes")
    max_goal_bytes: int = Field(default=MAX_GOAL_WITH_STEPS_BYTES, ge=1024, description="largest goal with steps")
    max_failures: int = Field(default=5, ge=1, description="decisions about an entry that may fail before it is dead")
    max_dead: int = Field(default=100_000, ge=1, description="entries a dead stream keeps, about; the oldest go first")
    max_dead_share: float = Field(
        default=0.1,
        gt=0,
        le=0.5,
        description="part of the server's `maxmemory` (of 2 GB where that is not set) that all dead streams together"
        " keep; the oldest go first",
    )
    max_queue: int = Field(default=10_000, ge=1, description="step specs a queue holds; more wait in their plans")
    max_tenant_plans: int = Field(default=100_000, ge=1, description="plans of one tenant that have not ended")
    require_receipts: bool = Field(
        default=False,
        description="new plans take no success on a step with a verification without a receipt of every tool of it",
    )
    delivery_wait_s: int = Field(
        default=86_400,
        ge=1,
        le=30 * 86_400,
        description="seconds that the delivery of a new plan may go unclaimed; then the plan is completed without it",
    )
    tenant_weights: Weights = Field(
        default={},
        description="turns that goals of a tenant have beside one turn of each other tenant, such as acme=2,other=0.5",
    )
    tenant_day_tokens: int | None = Field(default=None, ge=1, description="tokens a tenant may use on a day (UTC)")
    repository_day_tokens: int | None = Field(default=None, ge=1, description="tokens a repository may use on a day")
    retention_days: float = Field(default=30, gt=0, description="days until the keys of an ended plan go")
    events_s: int = Field(default=3600, ge=60, description="seconds for which events are kept, if memory allows")
    claim_idle_s: float = Field(default=30, ge=1, description="seconds until entries of a dead worker are taken over")
    watchdog_s: float = Field(default=60, ge=6, description="seconds of doing nothing until a worker ends with 70")
    stop_s: float = Field(default=25, ge=0, description="seconds that a stopping worker has for the work in hand")
    state_dir: Path | None = Field(
        default=None,
        description="where workers tell that they live, and keep which commits they know, so that a rollback is seen:"
        " a disk that outlives the container and is not restored with Redis;"
        " `planner-<uid>` among the temporary files unless set",
    )
    data_dir: Path = Field(default=Path(".planner"), description="where the embedded server keeps its data")
    tools_file: Path | None = Field(default=None, description="TOML file of contracts to add to the tool catalogue")
    webhooks_file: Path | None = Field(
        default=None,
        description="TOML file of who sends webhooks, and of the rules by which they become goals; the gateway reads"
        " it, and workers that ask the forges",
    )
    oidc_file: Path | None = Field(
        default=None, description="TOML file of issuers whose OIDC tokens the gateway exchanges for keys"
    )
    forbidden_paths: Names = Field(
        default=FORBIDDEN_NAMES,
        description="names of files and folders that no goal may allow, in place of these; `folder/` is a folder alone,"
        " `*` and `?` are as in a shell; version control stays forbidden",
    )
    also_forbidden_paths: Names = Field(default=(), description="more of such names, beside those")
    allow_unsafe_redis: bool = Field(default=False, description="start without AOF or with evicting keys all the same")
    gateway_host: str = Field(
        default="127.0.0.1", min_length=1, description="the address that `planner gateway` listens at"
    )
    gateway_port: int = Field(default=8484, ge=0, le=65_535, description="its port; 0 takes any that is free")
    gateway_hosts: Words = Field(
        default=(),
        description="names that callers know the gateway by, separated by commas, beside those of this machine alone"
        " and its address; requests for other hosts are refused",
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(default="INFO", description="least level logged")
    drafters: DrafterNames = Field(
        default=("none", "queue"), description="the drafters that goals may ask for, separated by commas"
    )
    drafter: DrafterName | None = Field(
        default=None,
        description="who drafts goals that ask for nobody;"
        " `none` for `task`, `queue` for `campaign` and `evolution` unless set",
    )
    llm_model: str | None = Field(
        default=None, description="the model of the drafter `http`, such as openai:gpt-5; its bare name with a base URL"
    )
    llm_base_url: str | None = Field(
        default=None, pattern=r"^https?://[^\s/]", description="an endpoint that speaks OpenAI's chat completions"
    )
    llm_api_key: SecretStr | None = Field(
        default=None, description="its key; without a base URL the provider's own variable counts as well"
    )
    llm_timeout_s: float = Field(default=900, gt=0, description="seconds for an answer, repeated calls included")
    llm_max_retries: int = Field(default=4, ge=0, le=20, description="calls more after 429, 5xx and lost connections")
    llm_max_output_tokens: int = Field(default=8192, ge=32, description="longest answer that is asked for")
    llm_stream: bool = Field(default=True, description="ask for the answer in pieces, so that no proxy hangs up")
    cli_command: Argv = Field(
        default=(), description="the drafter `cli`: a JSON list or words, no shell; `{schema_file}` becomes a path"
    )
    cli_output: OutputName = Field(
        default="text",
        description="what it prints: its answer, or as `claude --output-format json` or `codex --json` do",
    )
    cli_timeout_s: float = Field(
        default=1800, gt=0, validation_alias=_old("CLI_TIMEOUT_S", "TIMEOUT_SECONDS"), description="seconds that it has"
    )
    cli_memory_mb: int | None = Field(
        default=None, ge=16, description="its address space; Node reserves far more of it than it uses"
    )
    cli_working_dir: Path | None = Field(
        default=None, description="the git repository that it runs in; an empty directory unless set"
    )
    cli_env: Variables | None = Field(
        default=None,
        validation_alias=_old("CLI_ENV", "EXTRA_ENV"),
        description="a JSON object of variables that it is given beside PATH, HOME and the like",
    )
    cli_paths: Grants = Field(
        default=(), description="paths beside the system's that it may read, `PATH:rw` to write too, with commas"
    )
    sandbox: Literal["auto", "require", "off"] = Field(
        default="auto",
        description="confine agents and verifications by Landlock and bubblewrap: `auto` where the kernel has them,"
        " `require` or do not start, `off`",
    )
    agent_user: str | None = Field(
        default=None,
        min_length=1,
        description="where controllers and workers run as root: the user, by name or number, that agents and"
        " verifications run as instead",
    )
    planning_backend: str | None = Field(
        default=None,
        validation_alias=_planning("BACKEND"),
        description="the drafter `backend`: `module:attr` of an instance, a class or a factory",
    )
    planning_timeout_seconds: float = Field(
        default=900, gt=0, validation_alias=_planning("TIMEOUT_SECONDS"), description="seconds that it has"
    )
    planning_max_attempts: int = Field(
        default=2, ge=1, le=10, validation_alias=_planning("MAX_ATTEMPTS"), description="questions for one draft"
    )
    planning_validation_mode: Literal["strict", "lenient", "none"] = Field(
        default="lenient", validation_alias=_planning("VALIDATION_MODE"), description="what a draft must be like"
    )
    planning_schema_mode: Literal["auto", "native", "prompt", "none"] = Field(
        default="auto",
        validation_alias=_old("PLANNING_SCHEMA_MODE", "CODEX_SCHEMA_MODE"),
        description="how a drafter is told the schema: by its interface, in the prompt, or both where it can",
    )
    planning_fallback: Literal["template", "reject"] = Field(
        default="template", description="what becomes of a `task` or a `campaign` whose draft is of no use"
    )
    planning_max_clarifications: int = Field(
        default=5, ge=1, le=20, description="answers of a person after which a `campaign` that is still unclear ends"
    )
    planning_max_replans: int = Field(
        default=1, ge=0, le=5, description="times that a `campaign` which is stuck is planned anew"
    )
    planning_quorum: int = Field(
        default=3, ge=1, le=4, description="modes of an exploration that must come to something, else memory counts"
    )
    planning_max_failures: int = Field(
        default=10, ge=0, le=100, description="remembered failures that count for a `campaign`"
    )
    planning_gap_protected: Literal["action", "file"] = Field(
        default="action", description="what a `gap_report` leaves out where an action names a protected file"
    )
    planning_gap_checks: CheckNames = Field(
        default=("ruff-check", "pyright"),
        description="the tools that check the files of a `gap_report` in Python, separated by commas",
    )
    planning_gap_high_risk: Literal["failed", "exhausted"] = Field(
        default="failed", description="the gaps of a `gap_report` that are of high risk because of their past"
    )
    planning_gap_max_failures: int = Field(
        default=3, ge=1, le=100, description="failures in a row that put a gap of a `gap_report` after the others"
    )
    planning_trajectory_block_size: int = Field(
        default=8, ge=1, validation_alias=_planning("TRAJECTORY_BLOCK_SIZE"), description="commits of a summary"
    )
    planning_trajectory_max_chunks: int = Field(
        default=3, ge=0, validation_alias=_planning("TRAJECTORY_MAX_CHUNKS"), description="summaries in a prompt"
    )
    planning_trajectory_max_raw_steps: int = Field(
        default=6,
        ge=0,
        validation_alias=_planning("TRAJECTORY_MAX_RAW_STEPS"),
        description="commits told one by one",
    )
    planning_trajectory_summary_model: str | None = Field(
        default=None, validation_alias=_planning("TRAJECTORY_SUMMARY_MODEL"), description="whose summaries count"
    )
    planning_trajectory_summary_max_chars: int = Field(
        default=800, ge=64, validation_alias=_planning("TRAJECTORY_SUMMARY_MAX_CHARS"), description="of one summary"
    )
    planning_debug_dir: Path | None = Field(
        default=None, description="where each question to a drafter is kept with its answer, for a while"
    )
    secret_file: Path | None = Field(
        default=None,
        description="file of the keys that encrypt the secrets of endpoints, one a line, the newest first; whoever"
        " delivers callbacks and adds endpoints has the same",
    )
    callback_allow: Networks = Field(
        default=(),
        description="addresses and networks that callbacks may go to though they are not public, or without TLS;"
        " separated by commas",
    )
    public_url: str | None = Field(
        default=None,
        pattern=r"^(https?://[^\s/]\S*)?$",
        description="where people reach the gateway, such as https://planner.example.com: the links of callbacks",
    )
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
        kept = (self.state, self.data_dir, self.planning_debug_dir, self.secret_file, self.webhooks_file)
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

    @property
    def planning(self) -> dict[str, Any]:
        """What a strategy is told of PLANNER_PLANNING_*, by the short names in lower case.

        `schema_in_prompt` follows from the schema mode.
        """
        names = [name for name in type(self).model_fields if name.startswith(PLANNING) and name not in OURS]
        options = {name.removeprefix(PLANNING): getattr(self, name) for name in names}
        return options | {"schema_in_prompt": self.planning_schema_mode != "native"}


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
        wrong += _missing(settings)
    if wrong:
        raise WrongSettings("\n".join(wrong))
    return settings


def _secrets() -> dict[str, Any]:
    """Gather the settings that are secrets, by their fields."""
    read = credentials.read()
    names = credentials.VARIABLES.items()
    found = {field: next((read[name] for name in variables if name in read), None) for field, variables in names}
    return {field: value for field, value in found.items() if value is not None}


def _missing(settings: Settings) -> list[str]:
    """Say what is not set that the enabled drafters need: a sentence each."""
    model = settings.llm_model
    needs = (
        ("http", bool(model), "PLANNER_LLM_MODEL: the drafter http needs the name of a model."),
        (
            "http",
            not model or ":" in model or bool(settings.llm_base_url),
            f"PLANNER_LLM_MODEL: {model} names no provider as openai:{model} does, nor does PLANNER_LLM_BASE_URL.",
        ),
        ("cli", bool(settings.cli_command), "PLANNER_CLI_COMMAND: the drafter cli needs a command."),
        ("backend", bool(settings.planning_backend), "PLANNER_PLANNING_BACKEND: the drafter backend needs a path."),
    )
    enabled = {*settings.drafters, "none"}
    said = [sentence for name, is_there, sentence in needs if name in enabled and not is_there]
    if settings.drafter and settings.drafter not in enabled:
        said.append(f"PLANNER_DRAFTER: {settings.drafter} is not among PLANNER_DRAFTERS.")
    return said


def variables(name: str) -> tuple[str, ...]:
    """Name the variables that set a field, its own first."""
    alias = Settings.model_fields[name].validation_alias
    return tuple(map(str, alias.choices)) if isinstance(alias, AliasChoices) else (PREFIX + name.upper(),)


def _sentence_of(error: ErrorDetails) -> str:
    """Say what is wrong with a variable, without its value where that is a secret."""
    place = str(error["loc"][0])
    variable = place if place.isupper() else PREFIX + place.upper()
    shown = "" if variable in credentials.NAMES - URLS else f", not {PASSWORD.sub('//', str(error['input']))!r}"
    return f"{variable}: {error['msg']}{shown}."
