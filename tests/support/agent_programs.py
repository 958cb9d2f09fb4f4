"""The agent CLIs that npm installs: their paths, and the options that point each at a test's server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.support.model_server import Says
from tests.support.programs import needs

KEY = "a-very-secret-key"


@dataclass(frozen=True, slots=True)
class Cli:
    """An agent's program: its npm package, its variables and options for a server, and how it changes a file."""

    name: str
    package: str
    variables: Callable[[str], dict[str, str]]
    more: Callable[[str], list[str]]
    edit: Callable[[str, str, str], tuple[Says, ...]]
    run: Callable[[str], Says]


def _codex_edit(path: str, old: str, new: str) -> tuple[Says, ...]:
    lines = [f"*** Update File: {path}", "@@", *(f"-{line}" for line in old.splitlines())]
    patch = "\n".join(["*** Begin Patch", *lines, *(f"+{line}" for line in new.splitlines()), "*** End Patch", ""])
    return (_codex_run(f"apply_patch <<'P'\n{patch}P\n"),)


def _codex_run(command: str) -> Says:
    return Says(tool="exec_command", given={"cmd": command, "yield_time_ms": 30_000})


def _codex_more(url: str) -> list[str]:
    provider = f'{{name="stub",base_url="{url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"'
    limits = "request_max_retries=0,stream_max_retries=0}"
    return ["-c", f"model_providers.stub={provider},{limits}", "-c", "model_provider=stub", "-m", "stub"]


CLAUDE = Cli(
    "claude",
    "@anthropic-ai/claude-code",
    lambda url: {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_MAX_RETRIES": "1"},
    lambda _: [],
    lambda path, old, new: (
        Says(tool="Read", given={"file_path": path}),
        Says(tool="Edit", given={"file_path": path, "old_string": old, "new_string": new}),
    ),
    lambda command: Says(tool="Bash", given={"command": command}),
)
CODEX = Cli("codex", "@openai/codex", lambda _: {"OPENAI_API_KEY": KEY}, _codex_more, _codex_edit, _codex_run)
CLIS = [pytest.param(cli, id=cli.name) for cli in (CLAUDE, CODEX)]
needs_both = needs(f"npm:{CLAUDE.package}", f"npm:{CODEX.package}")
