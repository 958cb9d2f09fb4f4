"""Imports modules and asks for the help of every command, in an environment that has the wheel alone.

Reads a JSON object from its standard input: each module to import, with the modules that it imports from others.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
from collections.abc import Iterator
from typing import Any


def troubles_of_imports(modules: dict[str, list[str]]) -> Iterator[str]:
    """Import each module; yields a sentence for each that cannot be, and for each late import that would fail."""
    for module, others in modules.items():
        try:
            importlib.import_module(module)
        except (Exception, SystemExit) as error:
            yield f"{module} cannot be imported: {error!r}"
        yield from (f"{module} imports {other}, which is not installed" for other in others if not _is_there(other))


def commands_of(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Walk through the commands of a command, itself first."""
    yield words
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands_of(inner, (*words, name))


def troubles_of_help(root: Any, words: tuple[str, ...]) -> Iterator[str]:
    """Ask a command for its help; yields a sentence where it has none."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            root.main([*words, "--help"], prog_name="planner", standalone_mode=False)
    except (Exception, SystemExit) as error:
        yield f"planner {' '.join(words)} --help: {error!r}"
    if "Usage: planner" not in printed.getvalue():
        yield f"planner {' '.join(words)} --help printed {printed.getvalue()[:80]!r}"


def _is_there(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError:
        return False
    return True


if __name__ == "__main__":
    from typer.main import get_command

    from worker.cli.commands.app import app

    asked = json.load(sys.stdin)
    command = get_command(app)
    commands = [*commands_of(command)]
    troubles = [*troubles_of_imports(asked)]
    for words in commands:
        troubles += troubles_of_help(command, words)
    done = f"{len(asked)} modules imported, the help of {len(commands)} commands printed"
    sys.stdout.write("\n".join(troubles) or done)
    sys.exit(bool(troubles))
