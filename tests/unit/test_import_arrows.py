"""Which folders of `worker/` may import which: the demo, the command line above it, webhooks, and what each reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.imports import imports_of

WORKER = Path(__file__).parents[2] / "worker"
ABOVE = {
    "demo": {"cli"},
    "sources": {"cli", "delivered", "demo", "gateway", "webhooks"},
}  # folder -> who may import it, itself aside


def importers(folder: str) -> set[str]:
    """List the folders and loose modules of `worker/` that import `worker.<folder>`."""
    return {
        module.relative_to(WORKER).parts[0]
        for module in WORKER.rglob("*.py")
        if any(f"{name}.".startswith(f"worker.{folder}.") for name in imports_of(module))
    }


@pytest.mark.parametrize("folder", ABOVE)
def test_only_who_stands_above_imports_a_folder(folder: str) -> None:
    assert importers(folder) == {folder} | ABOVE[folder]


def test_nothing_below_the_command_line_imports_it() -> None:
    assert importers("cli").isdisjoint({"demo", "sources"})
