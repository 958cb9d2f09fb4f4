"""`CodexCliBackend`, the backend of the drafter `backend` where the operator names no other: `codex exec`.

It is the drafter `cli` with a command that is made of PLANNER_PLANNING_CODEX_BIN and PLANNER_PLANNING_CODEX_PROFILE.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schemas import codec
from schemas.kinds.evolution import PLANNING_OUTPUT_SCHEMA
from tasks.rules.strategy import Consult, Drafted
from worker.drafters.base import Stop, WrongDrafter
from worker.drafters.cli import SCHEMA_FILE, CliDrafter

if TYPE_CHECKING:
    from pathlib import Path

    from worker.settings.settings import Settings

OPTIONS = (  # the worker's sandbox is the one that holds: no other can be set up within it
    *("exec", "--json", "--ephemeral", "--skip-git-repo-check", "--color", "never", "--ignore-rules"),
    *("-c", "project_doc_max_bytes=0", "--dangerously-bypass-approvals-and-sandbox"),
)


class CodexCliBackend(CliDrafter):
    """Asks Codex for a plan within PLANNER_PLANNING_TIMEOUT_SECONDS."""

    command_setting = "PLANNER_PLANNING_CODEX_BIN"

    def __init__(self, settings: Settings) -> None:
        path = settings.planning_schema_path
        self._own_schema = _read_schema(path) if path else None
        has_schema = settings.planning_schema_mode in ("auto", "native")
        profile = settings.planning_codex_profile
        command = (
            settings.planning_codex_bin,
            *OPTIONS,
            *(("--profile", profile) if profile else ()),
            *(("--output-schema", SCHEMA_FILE) if has_schema else ()),
            "-",
        )
        given = {"cli_command": command, "cli_output": "codex", "cli_timeout_s": settings.planning_timeout_seconds}
        super().__init__(settings.model_copy(update=given))

    def ask(self, question: Consult, stop: Stop) -> Drafted:
        """Answer `question`; an evolution's plan has the operator's schema if one is configured."""
        if self._own_schema is not None and question.schema == PLANNING_OUTPUT_SCHEMA:
            question = replace(question, schema=self._own_schema)
        return super().ask(question, stop)


def _read_schema(path: Path) -> dict[str, Any]:
    try:
        found = codec.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise WrongDrafter(f"PLANNER_PLANNING_SCHEMA_PATH: {path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise WrongDrafter(f"PLANNER_PLANNING_SCHEMA_PATH: {path} holds no JSON object.")
    return found
