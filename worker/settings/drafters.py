"""The settings of drafters and of planning, those named `WORKER_*` included.

Also what a drafter cannot do without. Every `WORKER_PLANNING_<NAME>` is read where `PLANNER_PLANNING_<NAME>` is not
set.

| the setting `WORKER_*` | here |
|---|---|
| WORKER_PLANNING_MAX_ATTEMPTS, _BACKEND, _VALIDATION_MODE | the same |
| WORKER_PLANNING_TIMEOUT_SECONDS | the same (drafter `backend`), and PLANNER_CLI_TIMEOUT_S |
| WORKER_PLANNING_TRAJECTORY_BLOCK_SIZE, _MAX_CHUNKS, _MAX_RAW_STEPS | the same |
| WORKER_PLANNING_TRAJECTORY_SUMMARY_MODEL, _SUMMARY_MAX_CHARS | the same: which of the goal's summaries count |
| WORKER_PLANNING_CODEX_SCHEMA_MODE | PLANNER_PLANNING_SCHEMA_MODE |
| WORKER_PLANNING_EXTRA_ENV | PLANNER_CLI_ENV |
| WORKER_PLANNING_CODEX_BIN, _CODEX_PROFILE, WORKER_CURSOR_MODEL, _FORCE | none: words of PLANNER_CLI_COMMAND |
| WORKER_PLANNING_SCHEMA_PATH | none: the kind's schema, for which `{schema_file}` stands |
| WORKER_PLANNING_TRAJECTORY_SUMMARY_TEMPERATURE, _SUMMARY_MAX_OUTPUT_TOKENS | none: summaries come with the goal |
| WORKER_PLANNING_TRAJECTORY_SUMMARY_MAX_RETRIES, _SUMMARY_RETRY_BACKOFF_SECONDS | none: the same |
| OPENAI_API_SPEC | none: PLANNER_LLM_MODEL begins with openai: (responses) or openai-chat: |
| LOGS_BASE_DIR | PLANNER_PLANNING_DEBUG_DIR |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tasks.rules.strategy import Consult
    from worker.settings.settings import Settings

PLANNING = "planning_"
SUMMARIES = "summaries come with the goal, as chunk_summaries"
COMMAND = "write it as words of PLANNER_CLI_COMMAND"
DROPPED = {  # `WORKER_*` settings that nothing here reads, and what to do instead
    "WORKER_PLANNING_CODEX_BIN": COMMAND,
    "WORKER_PLANNING_CODEX_PROFILE": COMMAND,
    "WORKER_CURSOR_MODEL": COMMAND,
    "WORKER_CURSOR_FORCE": COMMAND,
    "WORKER_PLANNING_SCHEMA_PATH": "{schema_file} in PLANNER_CLI_COMMAND stands for the file of the kind's schema",
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_TEMPERATURE": SUMMARIES,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_MAX_OUTPUT_TOKENS": SUMMARIES,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_MAX_RETRIES": SUMMARIES,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_RETRY_BACKOFF_SECONDS": SUMMARIES,
    "OPENAI_API_SPEC": "begin PLANNER_LLM_MODEL with openai: (responses) or openai-chat:",
    "LOGS_BASE_DIR": "set PLANNER_PLANNING_DEBUG_DIR",
}
OURS = frozenset({"planning_backend", "planning_timeout_seconds", "planning_debug_dir"})  # no business of a strategy


def planning_options(settings: Settings) -> dict[str, Any]:
    """Gather what strategies are told, by short names; `schema_in_prompt` follows from the schema mode."""
    names = [name for name in type(settings).model_fields if name.startswith(PLANNING) and name not in OURS]
    options = {name.removeprefix(PLANNING): getattr(settings, name) for name in names}
    return options | {"schema_in_prompt": settings.planning_schema_mode != "native"}


def schema_mode(settings: Settings, drafter: str, question: Consult) -> str:
    """Say how `drafter` is told the schema of a question.

    That is native, prompt, or none where there is none.
    """
    if question.schema is None:
        return "none"
    if settings.planning_schema_mode != "auto":
        return settings.planning_schema_mode
    has_place = any("{schema_file}" in word for word in settings.cli_command)
    return "prompt" if drafter == "cli" and not has_place else "native"


def unread_settings(environment: Mapping[str, str]) -> list[str]:
    """Say which `WORKER_*` settings are set and read by nobody: a sentence each."""
    return [f"{name} is not read here: {instead}." for name, instead in DROPPED.items() if environment.get(name)]


def missing_settings(settings: Settings) -> list[str]:
    """Say what is not set that the enabled drafters need: a sentence each."""
    enabled = {*settings.drafters, "none"}
    said = [sentence for name, is_there, sentence in _needs(settings) if name in enabled and not is_there]
    if settings.drafter and settings.drafter not in enabled:
        said.append(f"PLANNER_DRAFTER: {settings.drafter} is not among PLANNER_DRAFTERS.")
    return said


def _needs(settings: Settings) -> tuple[tuple[str, bool, str], ...]:
    model = settings.llm_model
    return (
        ("http", bool(model), "PLANNER_LLM_MODEL: the drafter http needs the name of a model."),
        (
            "http",
            not model or ":" in model or bool(settings.llm_base_url),
            f"PLANNER_LLM_MODEL: {model} names no provider as openai:{model} does, nor does PLANNER_LLM_BASE_URL.",
        ),
        ("cli", bool(settings.cli_command), "PLANNER_CLI_COMMAND: the drafter cli needs a command."),
        ("backend", bool(settings.planning_backend), "PLANNER_PLANNING_BACKEND: the drafter backend needs a path."),
    )
