"""Who drafts plans: nobody, a controller, a model, an agent's command, or the operator's class.

`none` (templates) and `queue` (a DRAFT step, which a controller answers) need nothing of the worker.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from worker.drafters.base import FOLDERS, Drafter, WrongDrafter
from worker.host import temporary
from worker.sandbox.user import User
from worker.settings.drafters import unread_settings

if TYPE_CHECKING:
    from worker.settings.settings import Settings

log = logging.getLogger("planner.drafters")


def drafter_of(settings: Settings, name: str) -> Drafter | None:
    """Make the drafter `name`, None where nobody has to be asked; raises WrongDrafter with a sentence."""
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
    if name == "backend":
        from worker.drafters.backend import BackendDrafter

        return BackendDrafter(settings)
    return None


def check(settings: Settings) -> None:
    """Make sure that every enabled drafter can be used; raises WrongDrafter with a sentence for each that cannot."""
    wrong = []
    for name in settings.drafters:
        try:
            drafter_of(settings, name)
        except WrongDrafter as error:
            wrong.append(str(error))
    if wrong:
        raise WrongDrafter("\n".join(wrong))


def tidy_up(settings: Settings) -> None:
    """Remove what the drafters of workers that were killed have left; to be called after `check`, before one is asked.

    Such a folder may belong to the user that agents run as.
    """
    if {"cli", "backend"} & {*settings.drafters}:
        owners = [User.find(settings.agent_user).uid] if settings.agent_user and "cli" in settings.drafters else []
        temporary.remove_left_behind(FOLDERS, owners)


def warn() -> None:
    """Log the `WORKER_*` settings that are set and that nobody reads."""
    for sentence in unread_settings(os.environ):
        log.warning(sentence)
