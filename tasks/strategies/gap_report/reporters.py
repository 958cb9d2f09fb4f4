"""The tool that reported a quality gap judges whether it is closed, where the catalogue knows that tool."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType

from schemas.gap import PlannedGap
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report.evidence import tool_of
from tasks.toolchain.contract import MANY, fits, operand

PYTHON = (".py", ".pyi")
NODE = (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx")

# The word that a tool is known by, how it is run, and what files it is given; none: it looks at everything.
COMMANDS: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "ruff": ("ruff check", PYTHON),
        "flake8": ("flake8", PYTHON),
        "mypy": ("mypy", PYTHON),
        "pyright": ("pyright", PYTHON),
        "eslint": ("npx eslint", NODE),
        "tsc": ("npx tsc --noEmit", ()),
        "vet": ("go vet ./...", ()),
        "golangci-lint": ("golangci-lint run ./...", ()),
        "clippy": ("cargo clippy -- -D warnings", ()),
    }
)


def reporter_of(gap: PlannedGap, project: Project, files: Sequence[str]) -> tuple[VerifyTool, ...]:
    """Aim the tool that reported `gap` at what changes of its kind; empty for tests and for tools that nobody knows."""
    words = re.findall(r"[\w-]+", tool_of(gap.description).casefold()) if gap.category.casefold() == "quality" else ()
    for command, suffixes in (COMMANDS[word] for word in words if word in COMMANDS):
        aimed = (
            tuple(path for path in files if path.endswith(suffixes) and fits("path", operand(path))) if suffixes else ()
        )
        whole = (".",) if suffixes and not 0 < len(aimed) <= MANY else aimed
        with suppress(UnknownCommand):
            return (
                project.catalogue.aim(tuple(command.split()), whole) if suffixes else project.catalogue.match(command),
            )
    return ()
