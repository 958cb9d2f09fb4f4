"""Definitions that a goal brings along say where its words are at home, and permit nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tasks.strategies.drafting.focus import Focus
from tests.support.plans import a_goal

FILES = ("src/cart.py", "src/tax.py", "src/other.py")
CART = {"name": "Cart", "line": 3, "end_line": 40}
TOTAL = {"name": "Cart.total_of", "line": 12, "end_line": 20}
RATE = {"name": "RATE", "line": 1}


def places(sentence: str, definitions: dict[str, list[dict[str, Any]]], **context: Any) -> list[tuple[str, str | None]]:
    goal = a_goal(sentence=sentence, files=FILES, context={"definitions": definitions, **context})
    return [(place.path, place.lines) for place in Focus(FILES).places(sentence, goal.context)]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("Round total_of the order", [("src/cart.py", "12-20")]),
        ("Round `Cart.total_of(order)`", [("src/cart.py", "12-20")]),
        ("Use RATE of the country", [("src/tax.py", "1")]),
        ("Use the rate of the country", []),
        ("Use RATE in Cart", [("src/tax.py", "1"), ("src/cart.py", "3-40")]),
    ],
)
def test_a_name_of_the_sentence_points_to_where_it_is_defined(
    sentence: str, found: list[tuple[str, str | None]]
) -> None:
    known = places(sentence, {"src/cart.py": [CART, TOTAL], "src/tax.py": [RATE]})

    assert known[: len(found)] == found
    assert found or not any(lines for _, lines in known)


def test_a_name_that_many_files_define_and_files_that_may_not_change_are_no_places() -> None:
    many = {path: [RATE] for path in FILES}

    assert [path for path, lines in places("Use RATE", many) if lines] == list(FILES)
    assert places("Use RATE", {**many, "src/cart.py": [RATE, RATE]}) == []
    assert places("Use RATE", {"lib/elsewhere.py": [RATE]}) == []


def test_what_the_failure_names_comes_first() -> None:
    log = 'File "src/other.py", line 7, in pay'

    assert places("Use RATE", {"src/tax.py": [RATE]}, failure_log=log)[:2] == [
        ("src/other.py", "7"),
        ("src/tax.py", "1"),
    ]
