"""Tests stand alone: what several of them share is a module of tests/support, or a fixture of a conftest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.imports import imports_in

ROOT = Path(__file__).parents[2]


def borrowed(source: str, name: str = "sample.py") -> list[str]:
    """Say what `source`, a module of the tests, imports out of test modules."""
    return [
        f"{name}:{line} imports {imported}"
        for imported, line in imports_in(source)
        if imported.startswith("tests.") and any(part.startswith("test_") for part in imported.split("."))
    ]


def test_no_test_module_is_imported_by_another() -> None:
    modules = (ROOT / "tests").rglob("*.py")

    assert [fault for path in modules for fault in borrowed(path.read_text(), str(path.relative_to(ROOT)))] == []


@pytest.mark.parametrize(
    "statement",
    [
        "from tests.unit.test_halts import order",
        "from tests.unit import test_halts as halts",
        "import tests.unit.test_halts",
        "def test_it():\n    from tests.unit.test_halts import order",
    ],
)
def test_an_import_of_a_test_module_is_seen(statement: str) -> None:
    assert len(borrowed(statement)) == 1
