"""The drafters of plans: none, a controller, a model, an agent's command, or the operator's class.

`none` (templates) and `queue` (a DRAFT step, which a controller answers) need no configuration of the worker.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from worker.drafters.base import FOLDERS, Drafter, WrongDrafter
from worker.host import temporary
from worker.sandbox.user import User

if TYPE_CHECKING:
    from worker.settings.settings import Settings

log = logging.getLogger("planner.drafters")
CODEX = "CodexCliBackend"  # the backend that comes with the planner
SUMMARIES = "summaries come with the goal, as chunk_summaries"
COMMAND = "write it as words of PLANNER_CLI_COMMAND"


def drafter_of(settings: Settings, name: str) -> Drafter | None:
    """Return the drafter `name`; None if no worker asks it, as with `none` and `queue`. Raises WrongDrafter."""
    if name == "http":
        try:
            from worker.drafters.http import HttpDrafter
        except ImportError as error:
            sentence = "PLANNER_DRAFTERS: http needs the extra `llm` (pip install 'planner-worker[llm]')"
            raise WrongDrafter(f"{sentence}: {error}.") from error
        return HttpDrafter(settings)
    if name == "cli":
        from worker.drafters.cli import CliDrafter

        return CliDrafter(settings)
    if name == "backend" and settings.planning_backend in (None, CODEX):
        from worker.drafters.codex import CodexCliBackend

        return CodexCliBackend(settings)
    if name == "backend":
        from worker.drafters.backend import BackendDrafter

        return BackendDrafter(settings)
    return None


def check(settings: Settings) -> None:
    """Check that every enabled drafter can be used. Raises WrongDrafter with a sentence for each that cannot."""
    wrong = []
    for name in settings.drafters:
        try:
            drafter_of(settings, name)
        except WrongDrafter as error:
            wrong.append(str(error))
    if wrong:
        raise WrongDrafter("\n".join(wrong))


def tidy_up(settings: Settings) -> None:
    """Remove the folders that drafters of killed workers left; call it after `check`, before the first question.

    Such a folder may belong to the user that agents run as.
    """
    if {"cli", "backend"} & {*settings.drafters}:
        uses_codex = "backend" in settings.drafters and settings.planning_backend in (None, CODEX)
        runs_agents = "cli" in settings.drafters or uses_codex
        owners = [User.find(settings.agent_user).uid] if settings.agent_user and runs_agents else []
        temporary.remove_left_behind(FOLDERS, owners)


def warn() -> None:
    """Log the `WORKER_*` settings that are set and not read."""
    for sentence in unread_settings(os.environ):
        log.warning(sentence)


DROPPED = {  # `WORKER_*` settings that are not read here, and their replacements
    "WORKER_CURSOR_MODEL": COMMAND,
    "WORKER_CURSOR_FORCE": COMMAND,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_TEMPERATURE": SUMMARIES,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_MAX_OUTPUT_TOKENS": SUMMARIES,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_MAX_RETRIES": SUMMARIES,
    "WORKER_PLANNING_TRAJECTORY_SUMMARY_RETRY_BACKOFF_SECONDS": SUMMARIES,
    "OPENAI_API_SPEC": "begin PLANNER_LLM_MODEL with openai: (responses) or openai-chat:",
    "LOGS_BASE_DIR": "set PLANNER_PLANNING_DEBUG_DIR",
}


def unread_settings(environment: Mapping[str, str]) -> list[str]:
    """Return a sentence for each `WORKER_*` setting that is set and not read."""
    return [f"{name} is not read here: {instead}." for name, instead in DROPPED.items() if environment.get(name)]
