"""Finds commands for tests and setup in a repository's AGENTS.md and CLAUDE.md: proposals, which are never run.

A test command is one that the catalogue recognizes as a verification by tests. A setup command begins with the words of
a known installer. Both are only shown to the sender of a goal.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tasks.base.errors import UnknownCommand
from tasks.text.fields import fit
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.instructions import NAMES
from worker.sources.checkout import FAILURES, Checkout

CODE = re.compile(
    r"^[ \t]*(?:```|~~~)[^\n]*\n(?P<block>.*?)^[ \t]*(?:```|~~~)|`(?P<inline>[^`\n]{2,200})`", re.M | re.S
)
PROMPT = re.compile(r"^\s*(?:\$|>)\s+")
COMMENT = re.compile(r"\s+#.*$")
MOST, MOST_COMMANDS = 3, 500  # shown of each kind, and checked in each file
MAX_SHOWN = 200
INSTALLERS = (
    *(("uv", "sync"), ("poetry", "install"), ("pdm", "sync"), ("pdm", "install"), ("pipenv", "sync")),
    *(("pip", "install"), ("uv", "pip", "install"), ("python", "-m", "pip", "install")),
    *(("npm", "ci"), ("npm", "install"), ("pnpm", "install"), ("yarn", "install"), ("bun", "install")),
    *(("composer", "install"), ("bundle", "install"), ("go", "mod", "download"), ("cargo", "fetch")),
)


def propose(body: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Yield a sentence for each option that the instructions in the commit of the checkout at `folder` propose."""
    try:
        texts = _read(folder)
    except FAILURES:
        return
    given = (body.get("context") or {}).get("test_command")
    tests: dict[str, str] = {}
    setups: dict[str, str] = {}
    for path, text in texts.items():
        for command in _commands(text):
            if (test := _as_test(command)) and test != given:
                tests.setdefault(test, path)
            elif _is_setup(command):
                setups.setdefault(command, path)
    for found, option, whose in ((tests, "--test-command", ""), (setups, "--setup", " of planner controller")):
        for command, path in list(found.items())[:MOST]:
            yield f"{path} proposes {option} {shlex.quote(fit(command, MAX_SHOWN))}{whose}. Nothing of it was run."


def _read(folder: Path) -> dict[str, str]:
    checkout = Checkout.at(folder)
    if checkout is None:
        return {}
    files = checkout.files(checkout.head)
    return checkout.texts({name: files[name] for name in NAMES if name in files})


def _commands(text: str) -> Iterator[str]:
    """Yield the lines of code blocks and code spans in a Markdown text, at most MOST_COMMANDS."""
    left = MOST_COMMANDS
    for found in CODE.finditer(text):
        for line in (found["block"] or found["inline"] or "").splitlines():
            if command := COMMENT.sub("", PROMPT.sub("", line)).strip():
                yield command
                left -= 1
            if not left:
                return


def _as_test(command: str) -> str:
    """Return a command if it runs tests by the catalogue of tools; else an empty text."""
    try:
        tool = CATALOGUE.match(command)
    except UnknownCommand:
        return ""
    return command if CATALOGUE.contracts[tool.tool].category is ToolCategory.TEST else ""


def _is_setup(command: str) -> bool:
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    is_plain = command.isprintable() and not set(command) & set(";&|<>$`\\()")
    return is_plain and any(tuple(words[: len(each)]) == each for each in INSTALLERS)
