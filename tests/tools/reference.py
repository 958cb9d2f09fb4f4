"""Writes the pages of docs that are made from code alone: `uv run python -m tests.tools.reference`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from schemas.error_codes import SECTIONS
from tests.tools.cli_reference import commands_page

DOCS = Path(__file__).parents[2] / "docs"
ERRORS = """# Error codes

For everyone who meets an error code in a response, in the output of a command or in a dead-lettered entry. The field
`type` of a problem ([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)) is `/errors#CODE`: the gateway serves this page
at `/errors`. This page is made from `schemas/error_codes`.
"""


def errors_page() -> str:
    """Return docs/errors.md: a heading for each code, its cause and its solution."""
    return "\n".join((ERRORS, *_sections()))


def _sections() -> Iterator[str]:
    for section, codes in SECTIONS.items():
        yield f"## {section}\n"
        for code, entry in codes.items():
            yield f"### `{code}`\n\n{entry.cause}\n\nSolution: {entry.cure}\n"


PAGES = {"errors.md": errors_page, "cli.md": commands_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())
