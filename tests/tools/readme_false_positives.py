"""Measures how many real READMEs the sanitizer would touch; it should be fewer than one in a hundred.

    python tests/tools/readme_false_positives.py [--show] DIRECTORY...

Takes the long descriptions of installed wheels (`*.dist-info/METADATA`) and the READMEs of node packages
(`node_modules/**/README*`) below the directories, each text once. Exits with 1 at one per cent or more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from email import message_from_string
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tasks.text.sanitize import sanitize

MAX_RATE = 0.01
MIN_LENGTH = 200  # shorter ones are stubs: they would only flatter the rate


def texts(directories: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Read every README below `directories`, each different text once."""
    seen = set()
    for directory in directories:
        for path in sorted([*directory.rglob("*.dist-info/METADATA"), *directory.rglob("[Rr][Ee][Aa][Dd][Mm][Ee]*")]):
            text = _description(path) if path.is_file() else ""
            if len(text) >= MIN_LENGTH and text not in seen:
                seen.add(text)
                yield path, text


def _description(path: Path) -> str:
    text = path.read_text("utf-8", "replace")
    if path.name == "METADATA":
        message = message_from_string(text)
        return str(message.get_payload() or message.get("Description", ""))
    return (
        text if "node_modules" in path.parts and path.suffix.lower() in ("", ".md", ".markdown", ".rst", ".txt") else ""
    )


def main(arguments: list[str]) -> int:
    """Print count, touched and the rate; with `--show` also what was found where."""
    count = touched = 0
    for path, text in texts(Path(name) for name in arguments if name != "--show"):
        findings = sanitize(text).findings
        count, touched = count + 1, touched + bool(findings)
        for found in findings if "--show" in arguments else ():
            print(f"{path}: {found.kind}: {found.excerpt!r}")  # noqa: T201
    rate = touched / max(count, 1)
    print(f"count {count} touched {touched} rate {rate:.2%}")  # noqa: T201
    return int(rate >= MAX_RATE or not count)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
