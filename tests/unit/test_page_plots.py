"""Plots of the page: bars that fit their axis, and say what they stand for."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from worker.gateway.page import plots
from worker.gateway.page.plots import HEIGHT, LEAST

FIGURES = st.one_of(st.just(0.0), st.floats(0, 1e12, allow_nan=False))


def write(figure: float) -> str:
    return f"{figure:g}"


@given(st.lists(st.tuples(FIGURES, FIGURES), max_size=40))
@example([(5e-324, 0.0)])
def test_bars_stay_in_their_plot_and_parts_stand_on_each_other(rows: list[tuple[float, float]]) -> None:
    series = {"a": ("ayes", [a for a, _ in rows]), "b": ("bees", [b for _, b in rows])}

    plot = plots.draw("n", "N", [f"t{number}" for number in range(len(rows))], series, write)

    assert len(plot.bars) == len(rows)
    before = 0.0
    for bar, row in zip(plot.bars, rows, strict=True):
        assert before <= bar.x <= bar.x + bar.width <= 100.001
        before = bar.x + bar.width
        assert [part.look for part in bar.parts] == [look for look, figure in zip("ab", row, strict=True) if figure > 0]
        below = float(HEIGHT)
        for part in bar.parts:
            assert part.height >= LEAST - 0.01
            assert 0 <= part.y <= below
            assert part.y + part.height <= below + LEAST
            below = part.y


@given(st.floats(1e-6, 1e12))
def test_an_axis_ends_with_a_round_number_that_is_not_far_above(figure: float) -> None:
    top = plots.round_up(figure)

    assert figure * (1 - 1e-6) <= top <= 2.5 * figure
    assert float(f"{top:.2g}") == pytest.approx(top)


def test_a_bar_says_its_time_and_its_figures() -> None:
    plot = plots.draw("n", "N", ["mon", "tue"], {"a": ("done", [2, 0]), "b": ("lost", [1, 0])}, write)

    assert [bar.says for bar in plot.bars] == ["mon: 2 done, 1 lost", "tue: nothing"]
    assert plot.total == "3"
    assert [key.name for key in plot.keys] == ["done", "lost"]


def test_a_plot_without_anything_has_no_lines() -> None:
    plot = plots.draw("n", "N", ["mon"], {"a": ("done", [0])}, write)

    assert (plot.lines, plot.keys, plot.bars[0].parts) == ([], [], [])
