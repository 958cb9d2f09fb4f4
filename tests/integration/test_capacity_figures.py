"""The command of docs/sizing.md measures a server that restarts and gets a replica."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tools import capacity_figures

PAGE = (Path(__file__).parents[2] / "docs/sizing.md").read_text()


@pytest.mark.outages
def test_a_row_has_a_figure_for_each_column_of_the_page(tmp_path: Path) -> None:
    (row,) = capacity_figures.rows(tmp_path, [100])

    assert f"| {' | '.join(capacity_figures.HEAD)} |" in PAGE
    assert [re.sub(r"[\d.,]+", "n", cell) for cell in row] == [
        *("n", "n MB", "n kB", "n MB"),
        *("n s", "n ms", "n s", "n s", "n ms"),
    ]


@pytest.mark.outages
def test_an_ended_plan_leaves_kilobytes_in_memory_and_in_the_file(tmp_path: Path) -> None:
    kept, written = capacity_figures.ended_bytes(tmp_path / "ended")

    assert 1_000 < kept < 100_000
    assert 1_000 < written < 1_000_000
