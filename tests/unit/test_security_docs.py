"""What docs/attacks.md says of an attack is shown by a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "attacks.md"
NAMED = re.compile(r"`((?:tests/[\w/]+\.py)?(?:::\w+)?)(?:\[[^`]*\])?`")


def rows() -> list[str]:
    """The cells of the table that name tests."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and "tests/" in line]
    return [line.rsplit("|", 2)[1] for line in lines]


def named() -> list[tuple[str, str]]:
    """Each test as file and function; one without a file is in the file before it."""
    found, file = [], ""
    for cell in rows():
        for name in NAMED.findall(cell):
            path, _, function = name.partition("::")
            file = path or file
            found.append((file, function))
    return found


def test_every_test_that_the_page_names_is_there() -> None:
    missing = [
        (file, function)
        for file, function in named()
        if not (ROOT / file).is_file() or (function and f"def {function}(" not in (ROOT / file).read_text())
    ]

    assert len(named()) > 100
    assert missing == []


def test_every_attack_has_a_test() -> None:
    _, _, tables = PAGE.read_text().partition("What a red team tried")
    attacks = [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| attack |")]

    assert [line for line in attacks if "::test_" not in line and "tests/" not in line] == []
