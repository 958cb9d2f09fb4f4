"""The settings named `WORKER_*`: where each is read here, and what to do instead of those that are not.

Every `WORKER_PLANNING_<NAME>` is read where `PLANNER_PLANNING_<NAME>` is not
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


def unread_settings(environment: Mapping[str, str]) -> list[str]:
    """Say which `WORKER_*` settings are set and read by nobody: a sentence each."""
    return [f"{name} is not read here: {instead}." for name, instead in DROPPED.items() if environment.get(name)]
