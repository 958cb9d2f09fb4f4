"""What `planner submit` reads of the definitions of a goal's sources: names and lines, within 32 kB."""

from __future__ import annotations

import pytest

from schemas import codec
from schemas.goal import GoalContext
from worker.sources.definitions import MAX_DEFINITIONS, find_definitions

PYTHON = """RATE: int = 3
A, B = 1, 2
class Cart:
    size = 1
    async def total(self):
        def inner(): ...
        return "\\d"
"""
TYPESCRIPT = """export default abstract class Cart {}
export const total = async (a) => a
const plain = 3
export interface Line {}
"""
GO = """func (c *Cart) Total() int {
type Cart struct {
"""
RUST = """pub(crate) async fn total() {}
    pub struct Cart;
"""
CPP = """class Cart : public Base {
int Cart::total(int rate) {
    return round(rate);
int declared(int rate);
"""


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("a.py", PYTHON, [("RATE", 1), ("Cart", 3), ("Cart.total", 5)]),
        ("a.py", "def broken(:", []),
        ("a.tsx", TYPESCRIPT, [("Cart", 1), ("total", 2), ("Line", 4)]),
        ("a.go", GO, [("Total", 1), ("Cart", 2)]),
        ("a.rs", RUST, [("total", 1), ("Cart", 2)]),
        ("a.cpp", CPP, [("Cart", 1), ("Cart.total", 2)]),
    ],
)
def test_functions_classes_and_constants_are_found_with_their_lines(
    path: str, text: str, found: list[tuple[str, int]]
) -> None:
    known = find_definitions({path: text}, (), MAX_DEFINITIONS)

    assert [(each["name"], each["line"]) for each in known.get(path, ())] == found
    assert GoalContext.model_validate({"definitions": known})


def test_what_the_goal_names_has_room_first() -> None:
    texts = {f"src/part{n}.py": "".join(f"def name{n}_{m}(): ...\n" for m in range(400)) for n in range(9)}

    known = find_definitions(texts, {"name8_399"}, MAX_DEFINITIONS)

    assert len(codec.dumps(known)) <= MAX_DEFINITIONS
    assert [each["name"] for each in known["src/part8.py"]] == ["name8_399"]
    assert len(known["src/part0.py"]) == 400
    assert find_definitions(texts, {"name8_399"}, 10) == {}
