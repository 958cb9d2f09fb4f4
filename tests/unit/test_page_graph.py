"""How the steps of a plan are laid out as a graph on the page."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from schemas.plan import StepView
from worker.gateway.page.graph import BANDS, HEIGHT, MOST_EDGES, MOST_NODES, WIDTH, Graph, lay_out


def step(number: int, after: list[int]) -> StepView:
    return StepView(
        step_id=f"s-{number}", state="PENDING", attempt=0, depends_on=tuple(f"s-{each}" for each in after),
        allowed_files=(), verify="", risk_level="LOW", mode="patch", type="PATCH", queue="default", title="t",
    )  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> list[StepView]:
    count = draw(st.integers(0, 25))
    return [
        step(number, draw(st.lists(st.integers(0, number - 1), unique=True, max_size=4)) if number else [])
        for number in range(count)
    ]


def is_whole(graph: Graph) -> bool:
    inside = all(0 <= node.x <= graph.width - WIDTH and 0 <= node.y <= graph.height - HEIGHT for node in graph.nodes)
    apart = all(
        abs(one.x - other.x) >= WIDTH or abs(one.y - other.y) >= HEIGHT for one, other in combinations(graph.nodes, 2)
    )
    return inside and apart


@given(graphs())
def test_no_step_covers_another_and_all_stand_right_of_what_they_wait_for(steps: list[StepView]) -> None:
    graph = lay_out(steps)

    assert is_whole(graph)
    column = {node.name: node.column for node in graph.nodes}
    assert list(column) == [each.step_id for each in steps]
    assert all(column[each.step_id] > column[before] for each in steps for before in each.depends_on)
    assert len(graph.paths) == sum(len(each.depends_on) for each in steps)


def test_a_large_plan_is_drawn_as_bands_which_show_their_steps() -> None:
    chain = [step(number, [number - 1] if number else []) for number in range(10_000)]

    whole, part = lay_out(chain), lay_out(chain, 3)

    assert is_whole(whole)
    assert (whole.is_banded, len(whole.nodes), sum(len(node.steps) for node in whole.nodes)) == (True, BANDS, 10_000)
    assert (part.is_banded, [node.name for node in part.nodes]) == (False, [f"s-{n}" for n in range(750, 1000)])
    assert (whole.more_steps, part.more_steps) == (0, 0)


def test_a_band_of_more_steps_than_are_drawn_says_so() -> None:
    band = lay_out([step(number, []) for number in range(1000)], 0)

    assert (len(band.nodes), band.more_steps) == (MOST_NODES, 1000 - MOST_NODES)


def test_of_a_dense_plan_some_lines_are_drawn() -> None:
    dense = [step(number, list(range(number))) for number in range(100)]

    graph = lay_out(dense)

    assert (len(graph.paths), graph.left_out) == (MOST_EDGES, 99 * 100 // 2 - MOST_EDGES)
