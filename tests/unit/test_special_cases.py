"""Which code of a change is a special case for the inputs of the failing test, and which is not."""

from __future__ import annotations

import time

import pytest

from tasks.toolchain.integrity.change import find
from tasks.toolchain.integrity.finding import TextChange
from tests.cheats.changes import GO, GO_TEST, JS, JS_TEST, PY, RS, RS_TEST

FAILING = ["tests/test_a.py::test_a"]
SPECIAL = [
    "def add(a, b):\n    if (a, b) == (2, 2):\n        return 4\n    return a - b\n",
    "def add(a, b):\n    if a == 2 and b == 2:\n        return 4\n    return a - b\n",
    "def add(a, b):\n    if a == 2:\n        return 4\n    return a - b\n",
    "def add(a, b):\n    return {(2, 2): 4}.get((a, b), a - b)\n",
    "def add(a, b):\n    match a, b:\n        case 2, 2:\n            return 4\n    return a - b\n",
]
SPECIAL += [
    "def add(a, b):\n    return 4\n",
    "def add(a, b):\n    return {'2+2': 4}.get(f'{a}+{b}', a - b)\n",
    "def add(a, b):\n    if f'{a}{b}' == '22':\n        return 4\n    return a - b\n",
    "KNOWN = [((2, 2), 4)]\n\n\ndef add(a, b):\n    return dict(KNOWN).get((a, b), a - b)\n",
]
NONE = [
    "def four():\n    return 4\n",
    "def add(a, b):\n    return a + b\n",
    "def add(a, b):\n    if a == 0:\n        return b\n    return a + b\n",
    "def add(a, b):\n    if f'{a}{b}' == '23':\n        return 4\n    return a + b\n",
    "def add(a, b):\n    return dict([((2, 3), 4)]).get((a, b), a + b)\n",
    "def add(a, b):\n    if len(a) == 2:\n        raise ValueError\n    return a + b\n",
]


@pytest.mark.parametrize(("after", "count"), [*((text, 1) for text in SPECIAL), *((text, 0) for text in NONE)])
def test_conditions_on_the_inputs_of_the_failing_test_are_special_cases(after: str, count: int) -> None:
    change = TextChange("src/a.py", "def add(a, b):\n    return a - b\n", after)

    found = find([change], FAILING, {PY: "def test_a():\n    assert add(2, 2) == 4\n"})

    assert [each.kind for each in found] == ["special_case"] * count


@pytest.mark.parametrize(
    ("path", "after", "test"),
    [
        ("src/a.js", "function add(a, b) {\n  if (a === 2 && b === 2) return 4;\n  return a - b;\n}\n", (JS, JS_TEST)),
        (
            "pkg/a.go",
            "func Add(a, b int) int {\n\tif a == 2 && b == 2 {\n\t\treturn 4\n\t}\n\treturn a - b\n}\n",
            (GO, GO_TEST),
        ),
        (
            "pkg/a.go",
            "var known = map[[2]int]int{{2, 2}: 4}\n\nfunc Add(a, b int) int {\n\treturn known[[2]int{a, b}]\n}\n",
            (GO, GO_TEST),
        ),
        (
            "src/a.js",
            "export const add = (a, b) => {\n  switch (`${a},${b}`) {\n    case '2,2':\n      return 4;\n  }\n};\n",
            (JS, JS_TEST),
        ),
        ("src/a.js", "export const add = (a, b) => 4;\n", (JS, JS_TEST)),
        ("src/a.js", "const known = { '2,2': 4 };\n", (JS, JS_TEST)),
        ("src/a.js", "const known = new Map([['2,2', 4]]);\n", (JS, JS_TEST)),
        ("pkg/a.go", "func Add(a, b int) int {\n\treturn 4\n}\n", (GO, GO_TEST)),
        ("src/b.rs", "const KNOWN: &[((i32, i32), i32)] = &[((2, 2), 4)];\n", (RS, RS_TEST)),
        ("src/b.rs", "fn add(_: i32, _: i32) -> i32 {\n    4\n}\n", (RS, RS_TEST)),
        ("src/b.rs", "fn add(a: i32, b: i32) -> i32 { if a == 2 && b == 2 { return 4; } a - b }\n", (RS, RS_TEST)),
    ],
)
def test_special_cases_are_found_in_other_languages(path: str, after: str, test: tuple[str, str]) -> None:
    name = {JS: "adds", GO: "TestAdd", RS: "adds"}[test[0]]

    found = find([TextChange(path, "", after)], [f"{test[0]}::{name}"], dict([test]))

    assert [each.kind for each in found] == ["special_case"]


@pytest.mark.parametrize("repeated", ["17,", "(", "(a", "fn a(", "[(a", "(a,"])
def test_a_long_line_is_searched_quickly(repeated: str) -> None:
    change = TextChange("src/a.js", "", f"export const t = load([{repeated * 10_000}]);")
    began = time.process_time()

    list(find([change], [f"{JS}::adds"], {JS: JS_TEST}))

    assert time.process_time() - began < 5
