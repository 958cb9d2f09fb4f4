"""The figures of docs/performance.md and docs/profile.md are those of their runs, and so are its curves."""

from __future__ import annotations

from schemas import codec
from tests.tools.performance_page import CURVES, FIGURES, PAGE, PROFILE, PROFILE_PAGE, draw, filled, profiled


def test_the_page_and_its_curves_are_made_of_the_figures_beside_them() -> None:
    found = codec.loads(FIGURES.read_bytes())["figures"]

    assert PAGE.read_text() == filled(PAGE.read_text(), found)
    assert PROFILE_PAGE.read_text() == profiled(PROFILE_PAGE.read_text(), codec.loads(PROFILE.read_bytes()))
    assert CURVES.read_text() == draw(found)


def test_a_row_has_the_median_of_several_runs_with_the_least_and_the_most() -> None:
    figures = {
        "cpu_us": {"median": 1221.4, "min": 1180.0, "max": 1300.0},
        "ratio": {"median": 0.5, "min": 0.5, "max": 0.5},
    }

    assert filled("| `cpu_us` | 0 | x |\n| `ratio` | 7 (1 - 9) | y |\n| other | 1 |", figures) == (
        "| `cpu_us` | 1 221 (1 180 - 1 300) | x |\n| `ratio` | 0.50 | y |\n| other | 1 |"
    )
