"""`PLANNER_*`, read once; a wrong value stops the start with one sentence."""

from __future__ import annotations

import difflib
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from schemas.goal import MAX_GOAL_WITH_STEPS_BYTES
from schemas.wording import expected
from tasks.base.errors import PlannerError
from tasks.text.forbidden_paths import FORBIDDEN_NAMES, Forbidden, forbid
from worker.settings import cluster, credentials, drafting, oidc_file, redis_tls, sentinel, telemetry, tools_file
from worker.settings.drafting import DraftingSettings
from worker.settings.environment import PREFIX, FromEnvironment
from worker.settings.telemetry import TelemetrySettings
from worker.settings.types import REDIS_URL, Names, Networks, RedisUrl, Weights, Words

NUMBERS = {"off": 0, "on": 1, "likely": 1, "risky": 2}  # that stand for words of settings among limits
LIMIT = "limit"  # of new plans, which a setting sets where it is not as usual; a feature has it among its rows
URLS_OF_REDIS = ("redis://", "rediss://", "unix://", *sentinel.SCHEMES, *cluster.SCHEMES)
LOCAL_REDIS = "redis://localhost:6379/0"


class ServiceSettings(FromEnvironment):
    """The store of plans, its limits, and the access to it."""

    redis_ca_file: Path | None = Field(
        default=None,
        description="certificates of the authorities that may have signed the server's, in PEM, in addition to "
        "those of the system: for `rediss://`, of the broker too",
    )
    redis_cert_file: Path | None = Field(
        default=None, description="certificate that is shown to a server which asks clients for one"
    )
    redis_key_file: Path | None = Field(default=None, description="its key, unless that is in the same file")
    redis_url: RedisUrl = Field(default=LOCAL_REDIS, description="Redis or Valkey that keeps plans and streams")
    url: str | None = Field(
        default=None,
        pattern=r"^https?://[^\s/?#@]+(/[^\s?#@]*)?$",
        description="a gateway that commands and controllers ask, in place of PLANNER_REDIS_URL",
    )
    api_key: SecretStr | None = Field(default=None, description="the key that it is shown, `pk_...`")
    id_token: SecretStr | None = Field(
        default=None,
        description="an OIDC token of GitLab CI, which the gateway exchanges for a key; a job of GitHub Actions "
        "with `id-token: write` gets its own",
    )
    oidc_audience: str | None = Field(
        default=None, description="the audience that such a job asks for; PLANNER_URL unless set"
    )
    broker_url: RedisUrl | None = Field(
        default=None, description="Celery's broker; the same server unless set, and required with a cluster"
    )
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
        json_schema_extra={LIMIT: "unproven_successes"},
    )
    require_report: bool = Field(
        default=False,
        description="in new plans a tool of tests passes only with a whole report of them, for every exit code",
        json_schema_extra={LIMIT: "exit_codes_alone"},
    )
    split_broken_changes: bool = Field(
        default=False,
        description="in new plans a change of several files that does not compile is split once: the file that the"
        " failure names goes first",
        json_schema_extra={LIMIT: "whole_compilation"},
    )
    remember_failed_diffs: bool = Field(
        default=True,
        description="attempts of new plans receive changes that failed their verification on the same tree",
        json_schema_extra={LIMIT: "failed_diffs"},
    )
    remember_flaky_tests: bool = Field(
        default=True,
        description="new plans know the flaky tests of earlier plans of the repository, and store theirs",
        json_schema_extra={LIMIT: "flaky_tests"},
    )
    remember_outcomes: bool = Field(
        default=True,
        description="new plans store the results of their attempts for later plans of the repository, and read "
        "those of earlier ones",
        json_schema_extra={LIMIT: "outcomes"},
    )
    memory_order: Literal["likely", "risky", "off"] = Field(
        default="likely",
        description="order of a new plan's steps with the same dependencies: higher success rate first "
        "(`likely`), lower first (`risky`), or as planned (`off`)",
        json_schema_extra={LIMIT: "memory_order"},
    )
    memory_checks: Literal["on", "off"] = Field(
        default="off",
        description="the last patch of a new plan gets the check for the failures of similar attempts; checks without a"
        " finding in 20 runs go last",
        json_schema_extra={LIMIT: "memory_checks"},
    )
    delivery_wait_s: int = Field(
        default=86_400,
        ge=1,
        le=30 * 86_400,
        description="seconds that the delivery of a new plan may go unclaimed; then the plan is completed without it",
        json_schema_extra={LIMIT: "delivery_wait_s"},
    )
    answer_wait_s: int = Field(
        default=7 * 86_400,
        ge=60,
        le=366 * 86_400,
        description="seconds that a question of a new plan waits for a person's answer; then the plan ends",
        json_schema_extra={LIMIT: "answer_wait_s"},
    )
    tenant_weights: Weights = Field(
        default={},
        description="turns of a tenant's goals for one turn of each other tenant, such as acme=2,other=0.5",
    )
    tenant_day_tokens: int | None = Field(default=None, ge=1, description="tokens a tenant may use on a day (UTC)")
    repository_day_tokens: int | None = Field(default=None, ge=1, description="tokens a repository may use on a day")
    breaker_plans: int = Field(
        default=5,
        ge=0,
        le=100,
        description="plans of a tenant's repository that have to fail alike until the repository is paused; 0: never",
    )
    breaker_share: float = Field(
        default=0.6,
        gt=0,
        le=1,
        description="part of the repository's failures, and of the successes that weigh, that these have to be",
    )
    breaker_window_s: int = Field(
        default=900, ge=60, le=3600, description="seconds within which failures count for that"
    )
    breaker_probe_s: int = Field(
        default=600, ge=1, le=86_400, description="seconds between two steps that such a repository is let through"
    )
    retention_days: float = Field(default=30, gt=0, description="days until the keys of an ended plan go")
    events_s: int = Field(default=3600, ge=60, description="seconds for which events are kept, if memory allows")
    keep_diffs: bool = Field(
        default=True,
        description="keep the diffs of landed changes that controllers send; off: only the number of changed lines",
    )
    audit_days: float = Field(default=90, gt=0, description="days until records of acts are deleted (`planner audit`)")
    claim_idle_s: float = Field(default=30, ge=1, description="seconds until entries of a dead worker are taken over")
    watchdog_s: float = Field(default=60, ge=6, description="seconds of doing nothing until a worker ends with 70")
    stop_s: float = Field(default=25, ge=0, description="seconds that a stopping worker has for the work in hand")
    state_dir: Path | None = Field(
        default=None,
        description="folder for the workers' health, and for the commits that they know, which show a rollback. "
        "Use a disk that outlives the container and is not restored with Redis. Default: `planner-<uid>` in"
        " the folder of temporary files",
    )
    data_dir: Path = Field(default=Path(".planner"), description="where the embedded server keeps its data")
    tools_file: Path | None = Field(default=None, description="TOML file of contracts to add to the tool catalogue")
    webhooks_file: Path | None = Field(
        default=None,
        description="TOML file of the senders of webhooks, and of the rules that make goals; the gateway reads "
        "it, and workers that ask the forges",
    )
    oidc_file: Path | None = Field(
        default=None, description="TOML file of issuers whose OIDC tokens the gateway exchanges for keys"
    )
    forbidden_paths: Names = Field(
        default=FORBIDDEN_NAMES,
        description="names of files and folders that no goal may allow, in place of the default. `folder/` "
        "matches folders only, `*` and `?` as in a shell. Version control stays forbidden",
    )
    also_forbidden_paths: Names = Field(default=(), description="more of such names, in addition to those")
    allow_unsafe_redis: bool = Field(default=False, description="start without AOF or with evicting keys all the same")
    gateway_host: str = Field(
        default="127.0.0.1", min_length=1, description="the address that `planner gateway` listens at"
    )
    gateway_port: int = Field(default=8484, ge=0, le=65_535, description="its port; 0 takes any that is free")
    gateway_hosts: Words = Field(
        default=(),
        description="names of the gateway for callers, separated by commas, in addition to those of this machine "
        "alone and its address. Requests for other hosts are refused",
    )
    gateway_proxies: Words = Field(
        default=("127.0.0.1", "::1"),
        description="with `--behind-proxy`: the proxy's addresses or networks, separated by commas; only their "
        "headers about callers are believed",
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
    secret_file: Path | None = Field(
        default=None,
        description="file of the keys that encrypt the secrets of endpoints, one a line, the newest first. "
        "Processes that deliver callbacks or add endpoints need the same file",
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

    @property
    def switches(self) -> dict[str, int]:
        """The limits of new plans whose settings differ from the default, by name; a changed switch gives 0."""
        found: dict[str, int] = {}
        for name, field in type(self).model_fields.items():
            extra, value = field.json_schema_extra, getattr(self, name)
            if isinstance(extra, dict) and LIMIT in extra and value != field.default:
                found[str(extra[LIMIT])] = (
                    NUMBERS[value] if value in NUMBERS else 0 if isinstance(value, bool) else value
                )
        return found

    @field_validator("redis_url", "broker_url")
    @classmethod
    def _with_tls(cls, url: str | None, info: ValidationInfo) -> str | None:
        """Return the URL with the TLS options of the other settings. Raises ValueError if both do not fit together."""
        files = [info.data.get(name) for name in ("redis_ca_file", "redis_cert_file", "redis_key_file")]
        if info.field_name == "broker_url" and url and cluster.is_cluster(url):
            raise ValueError("is no cluster: Celery needs a single server, or one that sentinels watch")
        if any(files) and url and url.startswith(("redis://", "redis+")) and url != LOCAL_REDIS:
            raise ValueError("asks for no TLS, and PLANNER_REDIS_*_FILE is set: write rediss://")
        return url and redis_tls.with_tls(url, *files)

    def with_tls(self, url: str) -> str:
        """Return a Redis URL with the TLS options of the settings. Raises ValueError if either is invalid."""
        if not re.match(REDIS_URL, url):
            raise ValueError(f"is none of {', '.join(URLS_OF_REDIS)}")
        return redis_tls.with_tls(url, self.redis_ca_file, self.redis_cert_file, self.redis_key_file)


ELSEWHERE = frozenset(f"PLANNER_TEST_{name}" for name in ("REDIS_SERVER", "NODE_MODULES", "MODEL_PYTHON", "PROGRAMS"))
URLS = frozenset({"PLANNER_REDIS_URL", "PLANNER_BROKER_URL"})  # shown without their passwords
PASSWORD = re.compile("//.*@")


class WrongSettings(PlannerError):
    """The environment holds settings that cannot be used."""


class Settings(TelemetrySettings, DraftingSettings, ServiceSettings):
    """The settings of an operator; every field is the variable PLANNER_<NAME>."""

    @property
    def broker(self) -> str:
        """The broker's URL."""
        return self.broker_url or self.redis_url

    @property
    def state(self) -> Path:
        """The folder `state_dir`; by default a folder in the temporary directory that is named after this user."""
        return self.state_dir or Path(tempfile.gettempdir()) / f"planner-{os.getuid()}"

    @property
    def private(self) -> tuple[Path, ...]:
        """The paths that no agent and no verification may reach.

        These are the folders of state, of the embedded server and of kept drafts, and the files of secrets.
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
        """The time in seconds after a plan's end until its keys expire."""
        return int(self.retention_days * 86_400)

    @property
    def given_redis_url(self) -> str | None:
        """The server's configured address; None for the default."""
        return self.redis_url if "redis_url" in self.model_fields_set else None

    @property
    def forbidden(self) -> Forbidden:
        """The paths that no goal may allow."""
        return forbid((*self.forbidden_paths, *self.also_forbidden_paths))


def load() -> Settings:
    """Return the settings. Raises WrongSettings with one sentence for each wrong value."""
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
    """Return the secret settings by their fields."""
    read = credentials.read()
    names = credentials.VARIABLES.items()
    found = {field: next((read[name] for name in variables if name in read), None) for field, variables in names}
    return {field: value for field, value in found.items() if value is not None}


def variables(name: str) -> tuple[str, ...]:
    """Return the variables that set a field, its own first."""
    return Settings.variables(name)


def _sentence_of(error: ErrorDetails) -> str:
    """Return a sentence about a wrong variable; it quotes the value only if the value is no secret."""
    place = str(error["loc"][0])
    variable = place if place.isupper() else PREFIX + place.upper()
    shown = "" if variable in credentials.NAMES - URLS else f", not {PASSWORD.sub('//', str(error['input']))!r}"
    return f"{variable}: {expected(error)}{shown}."
