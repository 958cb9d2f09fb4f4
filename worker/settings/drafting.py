"""The settings of drafters, and of strategies for their drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import AliasChoices, Field, SecretStr

from worker.settings.environment import FromEnvironment
from worker.settings.types import Argv, CheckNames, DrafterName, DrafterNames, Grants, OutputName, Variables

PLANNING = "planning_"
OURS = frozenset(  # no business of a strategy
    f"planning_{name}"
    for name in ("backend", "codex_bin", "codex_profile", "schema_path", "timeout_seconds", "debug_dir")
)


def _planning(name: str) -> AliasChoices:
    """Return the variable name of a planning setting, and its older name `WORKER_PLANNING_*`."""
    return _old(f"PLANNING_{name}", name)


def _old(ours: str, theirs: str) -> AliasChoices:
    return AliasChoices(f"PLANNER_{ours}", f"WORKER_PLANNING_{theirs}")


class DraftingSettings(FromEnvironment):
    """The drafter, its time limit, and the rules for a draft."""

    drafters: DrafterNames = Field(
        default=("none", "queue"), description="the drafters that goals may ask for, separated by commas"
    )
    drafter: DrafterName | None = Field(
        default=None,
        description="the drafter of goals that name none; `none` for `task`, `queue` for `campaign` and "
        "`evolution` unless set",
    )
    drafts_at_once: int = Field(
        default=4, ge=1, le=64, description="drafters that a process of a worker asks at a time, each for another goal"
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
        default=(),
        description="the drafter `cli`: a JSON list or words, no shell;"
        " `{schema_file}` becomes a path, `{schema}` its text",
    )
    cli_output: OutputName = Field(
        default="text",
        description="format of its output: its answer, or that of `claude --output-format json` or `codex --json`",
    )
    cli_timeout_s: float = Field(
        default=1800,
        gt=0,
        validation_alias=_old("CLI_TIMEOUT_S", "TIMEOUT_SECONDS"),
        description="time limit of a call, in seconds",
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
        description="a JSON object of further variables of its environment, in addition to PATH, HOME and similar ones",
    )
    cli_paths: Grants = Field(
        default=(), description="further paths that it may read, `PATH:rw` to write too, separated by commas"
    )
    planning_backend: str | None = Field(
        default=None,
        validation_alias=_planning("BACKEND"),
        description="the drafter `backend`: `module:attr` of an instance, a class or a factory; `CodexCliBackend`, "
        "the command line of Codex, unless set",
    )
    planning_codex_bin: str = Field(
        default="codex", min_length=1, validation_alias=_planning("CODEX_BIN"), description="the program of Codex"
    )
    planning_codex_profile: str | None = Field(
        default=None, validation_alias=_planning("CODEX_PROFILE"), description="the profile that it is called with"
    )
    planning_schema_path: Path | None = Field(
        default=None,
        validation_alias=_planning("SCHEMA_PATH"),
        description="a file with the JSON Schema that it is given for plans of the kind `evolution`, in place of ours",
    )
    planning_timeout_seconds: float = Field(
        default=900, gt=0, validation_alias=_planning("TIMEOUT_SECONDS"), description="time limit of a call, in seconds"
    )
    planning_max_attempts: int = Field(
        default=2, ge=1, le=10, validation_alias=_planning("MAX_ATTEMPTS"), description="questions for one draft"
    )
    planning_validation_mode: Literal["strict", "lenient", "none"] = Field(
        default="lenient", validation_alias=_planning("VALIDATION_MODE"), description="rule for a draft with mistakes"
    )
    planning_schema_mode: Literal["auto", "native", "prompt", "none"] = Field(
        default="auto",
        validation_alias=_old("PLANNING_SCHEMA_MODE", "CODEX_SCHEMA_MODE"),
        description="how a drafter receives the schema: by its interface, in the prompt, or both if it can",
    )
    planning_fallback: Literal["template", "reject"] = Field(
        default="template", description="the result of a `task` or a `campaign` with an unusable draft"
    )
    planning_max_clarifications: int = Field(
        default=5, ge=1, le=20, description="answers of a person after which a `campaign` that is still unclear ends"
    )
    planning_max_replans: int = Field(
        default=1, ge=0, le=5, description="times that a stuck `campaign` is planned again"
    )
    planning_quorum: int = Field(
        default=3, ge=1, le=4, description="modes of an exploration that must come to something, else memory counts"
    )
    planning_max_failures: int = Field(
        default=10, ge=0, le=100, description="remembered failures that count for a `campaign`"
    )
    planning_gap_protected: Literal["action", "file"] = Field(
        default="action", description="the part that a `gap_report` leaves out if an action names a protected file"
    )
    planning_gap_checks: CheckNames | None = Field(
        default=None,
        description="tools that check the files of a `gap_report` in Python, separated by commas; unset: those in"
        " the goal's manifests, or ruff-check,pyright without manifests",
    )
    planning_gap_high_risk: Literal["failed", "exhausted"] = Field(
        default="failed", description="the gaps of a `gap_report` that are of high risk because of their past"
    )
    planning_gap_max_failures: int = Field(
        default=3, ge=1, le=100, description="failures in a row that put a gap of a `gap_report` after the others"
    )
    planning_gap_pause_after: int = Field(
        default=0,
        ge=0,
        le=100,
        description="failed `gap_report` iterations in a row, of any gaps, after which a person is asked; 0: never",
    )
    planning_task_budget_limit: bool = Field(
        default=False,
        description="an attempt of a `campaign` ends at twice its task's budget of tool calls, if its controller counts"
        " them",
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
        description="commits shown one by one",
    )
    planning_trajectory_summary_model: str | None = Field(
        default=None, validation_alias=_planning("TRAJECTORY_SUMMARY_MODEL"), description="whose summaries count"
    )
    planning_trajectory_summary_max_chars: int = Field(
        default=800, ge=64, validation_alias=_planning("TRAJECTORY_SUMMARY_MAX_CHARS"), description="of one summary"
    )
    planning_trajectory_summaries: int = Field(
        default=0,
        ge=0,
        le=10,
        validation_alias=_planning("TRAJECTORY_SUMMARIES"),
        description="summaries that the drafter of an `evolution` is asked for before its plan, and that later goals of"
        " the tenant share; 0: none",
    )
    plan_cache_days: float = Field(
        default=7,
        ge=0,
        le=365,
        description="days for which the draft of a completed plan answers the same goal; 0: none does",
    )
    planning_debug_dir: Path | None = Field(
        default=None, description="where each question to a drafter is kept with its answer, for a while"
    )

    @property
    def cache_kept_s(self) -> int:
        """The time in seconds for which a draft in the plan cache can answer the same goal."""
        return int(self.plan_cache_days * 86_400)

    @property
    def planning(self) -> dict[str, Any]:
        """The options PLANNER_PLANNING_* for strategies, by their short names in lower case.

        `schema_in_prompt` follows from the schema mode.
        """
        names = [name for name in type(self).model_fields if name.startswith(PLANNING) and name not in OURS]
        options = {name.removeprefix(PLANNING): getattr(self, name) for name in names}
        return options | {"schema_in_prompt": self.planning_schema_mode != "native"}


def missing(settings: DraftingSettings) -> list[str]:
    """Return a sentence for each missing setting of the enabled drafters."""
    model = settings.llm_model
    needs = (
        ("http", bool(model), "PLANNER_LLM_MODEL: the drafter http needs the name of a model."),
        (
            "http",
            not model or ":" in model or bool(settings.llm_base_url),
            f"PLANNER_LLM_MODEL: {model} names no provider as openai:{model} does, nor does PLANNER_LLM_BASE_URL.",
        ),
        ("cli", bool(settings.cli_command), "PLANNER_CLI_COMMAND: the drafter cli needs a command."),
    )
    enabled = {*settings.drafters, "none"}
    said = [sentence for name, is_there, sentence in needs if name in enabled and not is_there]
    if settings.drafter and settings.drafter not in enabled:
        said.append(f"PLANNER_DRAFTER: {settings.drafter} is not among PLANNER_DRAFTERS.")
    return said
