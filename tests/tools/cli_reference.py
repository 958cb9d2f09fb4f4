"""The page of the commands of `planner`, made from their parsers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from worker.cli.commands.app import app

HEAD = """# Commands

For everyone who uses the command line: each command of `planner` with its arguments and options.
`planner COMMAND --help` shows the same text. This page is made from the parsers of the commands.
"""
MARKUP = re.compile(r"\[/?(?:bold|dim|red|green|yellow|cyan|link)[^\]]*\]")
COMMAND = re.compile(r"\[b\](.*?)\[/b\]", re.DOTALL)


def commands_page() -> str:
    """Return docs/cli.md: a heading for each command, its help, its examples, and a table of its parameters."""
    return "\n".join((HEAD, *_commands(get_command(app), "planner")))


def _commands(command: Any, name: str) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None:
        yield from _command(command, name)
    for child, each in sorted((children or {}).items()):
        if not each.hidden:
            yield from _commands(each, f"{name} {child}")


def _command(command: Any, name: str) -> Iterator[str]:
    yield f"## `{name}`\n"
    for paragraph in re.split(r"\n\s*\n|\f", f"{command.help or ''}\n\n{command.epilog or ''}"):
        text = paragraph.strip()
        if COMMAND.fullmatch(text) or text.startswith("$ "):
            example = COMMAND.sub(r"\1", text).removeprefix("$ ")
            yield f"```console\n{example}\n```\n"
        elif text:
            yield _prose(text) + "\n"
    rows = [_row(each) for each in command.params if not getattr(each, "hidden", False) and each.name != "help"]
    if rows:
        yield "\n".join(("| argument or option | meaning | default |", "|---|---|---|", *rows, ""))


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = parameter.metavar or parameter.name.upper()
    else:
        value = "" if parameter.is_flag else f" {parameter.metavar or parameter.name.rpartition('_')[2].upper()}"
        names = ", ".join((*parameter.opts, *parameter.secondary_opts)) + value
    default = parameter.default
    shown = (
        "" if default in (None, False, "", (), []) or callable(default) else f"`{getattr(default, 'value', default)}`"
    )
    cells = (f"`{names}`", _prose(parameter.help or ""), shown)
    return "| " + " | ".join(each.replace("|", "\\|") for each in cells) + " |"


def _prose(text: str) -> str:
    plain = MARKUP.sub("", COMMAND.sub(r"`\1`", text)).replace("\\[", "[")
    return re.sub(r"\s+", " ", plain).replace("<", "&lt;").strip()
