"""What verifies a drafted step: commands of its own that the catalogue knows, else the goal's own tests.

A drafter writes sentences such as "Run `pytest tests/test_a.py`"; a command is only ever taken from the catalogue.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from schemas.base import RiskLevel
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.rules.risk import below
from tasks.rules.validation import MAX_TOOLS
from tasks.strategies.drafting.project import Project
from tasks.text.forbidden_paths import JUDGED, Forbidden
from tasks.text.paths import expand_globs
from tasks.toolchain.catalogue import Catalogue

_QUOTED = re.compile(r"`([^`]+)`")


def project_of(goal: Goal, catalogue: Catalogue, forbidden: Forbidden = JUDGED) -> Project | tuple[FieldError, ...]:
    """Read what a goal says of its project, or say what is wrong with its allowlist or its test command."""
    allowed = expand_globs(goal.allowed_files, goal.context.files, forbidden=forbidden)
    errors = list(allowed.errors)
    command, test = (goal.context.test_command or "").strip(), None
    try:
        test = catalogue.match(command) if command else None
    except UnknownCommand as error:
        pointer = "/context/test_command"
        errors.append(FieldError(pointer=pointer, code="unknown_test_command", message=str(error)))
    return tuple(errors) or Project.of(goal, allowed.files, test, catalogue)


def commands_in(
    lines: Iterable[str], catalogue: Catalogue, files: Sequence[str], level: RiskLevel
) -> tuple[VerifyTool, ...]:
    """Take the catalogue's commands out of `lines`: those that a step of this level may run, each once."""
    found: dict[tuple[str, ...], VerifyTool] = {}
    for line in lines:
        for text in (line.strip(), *_QUOTED.findall(line)):
            found.update((tool.argv, tool) for tool in _known(text.strip(), catalogue, files))
    return permitted(found.values(), catalogue, level)[:MAX_TOOLS]


def permitted(tools: Iterable[VerifyTool], catalogue: Catalogue, level: RiskLevel) -> tuple[VerifyTool, ...]:
    """Keep the tools that a step of this level may run."""
    return tuple(tool for tool in tools if not below(level, catalogue.contracts[tool.tool].min_risk))


def _known(text: str, catalogue: Catalogue, files: Sequence[str]) -> Iterator[VerifyTool]:
    try:
        yield from catalogue.expand(text, files)
    except UnknownCommand:
        return
