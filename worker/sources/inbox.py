"""The inbox: a folder of Markdown files with one wish each.

The fields are `title`, `what`, `why`, `priority` and `constraints`. They are in front matter (`priority: high`,
`constraints:` with a list below) or under headings (`# Title`, `## What`, `## Why`, `## Priority`, `## Constraints`).
Front matter has priority. A file without either is all `what`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from schemas.kinds.gap_report import InboxItem
from schemas.wording import expected
from tasks.base.errors import PlannerError
from worker.host import regular_files

FIELDS = ("title", "what", "why", "priority", "constraints")
MAX_FILE_BYTES = 64 * 1024
MAX_FILES = 1000
LEFT_OUT = ("readme.md",)

FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)\n---[ \t]*(?:\n|$)", re.DOTALL)
ENTRY = re.compile(r"(\w+)[ \t]*:[ \t]*(.*)")
FENCE = re.compile(r" {0,3}(```|~~~)")
HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t:]*")


class UnreadableInbox(PlannerError):
    """The folder cannot be read as an inbox; the message has the reason."""


def read(place: Path) -> tuple[InboxItem, ...]:
    """Return the wishes in a folder, in the order of their file names. Raises UnreadableInbox.

    Hidden files and a README are no wishes. A wish must be a regular file: a link or a pipe makes the inbox unreadable.
    """
    try:
        with regular_files.open_folder(place) as handle:
            with os.scandir(handle) as entries:
                names = sorted(each.name for each in entries if each.name.endswith(".md"))
            names = [name for name in names if not name.startswith(".") and name.casefold() not in LEFT_OUT]
            if len(names) > MAX_FILES:
                raise UnreadableInbox(f"{place} has {len(names)} wishes, and the limit is {MAX_FILES}.")
            found = []
            for name in names:
                raw = regular_files.read_at(handle, os.fsencode(name), MAX_FILE_BYTES)
                found.append(_item(place / name, raw))
            return tuple(found)
    except OSError as error:
        wrong = place / error.filename if isinstance(error.filename, str) else place
        raise UnreadableInbox(f"{wrong}: {error.strerror}.") from error


def _item(path: Path, raw: bytes) -> InboxItem:
    try:
        return parse(path.name, raw.decode())
    except UnicodeDecodeError as error:
        raise UnreadableInbox(f"{path} is not UTF-8.") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        raise UnreadableInbox(f"{path}: {first['loc'][0]}: {expected(first)}.") from error


def parse(filename: str, text: str) -> InboxItem:
    """Return the wish in the text of a Markdown file."""
    text = text.replace("\r\n", "\n").removeprefix("\ufeff")
    front = FRONT_MATTER.match(text)
    fields = _under_headings(text[front.end() :] if front else text) | (_front_matter(front[1]) if front else {})
    title = fields.pop("title", "") or Path(filename).stem.replace("-", " ").replace("_", " ")
    return InboxItem.model_validate({"filename": filename, "title": title, **fields})


def _front_matter(text: str) -> dict[str, str]:
    """Return the fields in lines like `name: value`. Indented lines and lines with a dash continue the field above."""
    lines: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if (entry := ENTRY.fullmatch(line)) and entry[1].casefold() in FIELDS:
            name = entry[1].casefold()
            lines[name] = [_unquoted(entry[2])]
        elif entry:
            name = ""
        elif name:
            lines[name].append(line.strip())
    return _filled(lines)


def _unquoted(value: str) -> str:
    value = value.strip()
    if value.startswith("[") and value.endswith("]"):
        return "\n".join(_unquoted(part) for part in value[1:-1].split(","))
    return "" if value in {"|", ">"} else value.strip("\"'")


def _under_headings(text: str) -> dict[str, str]:
    lines: dict[str, list[str]] = {}
    name, fence = "what", ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and fence in ("", mark[1]):
            fence = "" if fence else mark[1]
        heading = None if fence else HEADING.fullmatch(line)
        if heading is None:
            lines.setdefault(name, []).append(line)
        elif heading[2].casefold() in FIELDS:
            name = heading[2].casefold()
        elif len(heading[1]) == 1 and "title" not in lines:
            lines["title"] = [heading[2]]
        else:
            lines.setdefault(name, []).append(heading[2])
    return _filled(lines)


def _filled(lines: Mapping[str, list[str]]) -> dict[str, str]:
    texts = {name: "\n".join(those).strip() for name, those in lines.items()}
    return {name: text for name, text in texts.items() if text}
