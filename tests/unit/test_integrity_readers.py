"""What is found in a change, in each language: what weakens tests, suppresses, loosens or evades, and what does not."""

from __future__ import annotations

import pytest

from tasks.toolchain.integrity.change import find, find_in_file
from tasks.toolchain.integrity.finding import TextChange

PY = "tests/test_a.py"
JS, GO, RS, CC = "test/a.test.js", "a_test.go", "src/a.rs", "tests/a_test.cc"
PY_TEST = "def test_a():\n    assert add(2, 2) == 4\n    assert add(1, 1) == 2\n"
JS_TEST = "test('adds', () => {\n  expect(add(2, 2)).toBe(4);\n  expect(add(1, 1)).toEqual(2);\n});\n"
GO_TEST = 'func TestAdd(t *testing.T) {\n\tif Add(2, 2) != 4 {\n\t\tt.Errorf("no")\n\t}\n}\n'
RS_TEST = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(add(2, 2), 4);\n    }\n}\n"
CC_TEST = "TEST(Calc, Adds) {\n  EXPECT_EQ(add(2, 2), 4);\n  EXPECT_EQ(add(1, 1), 2);\n}\n"
TOML = (
    '[tool.pytest.ini_options]\naddopts = "-q"\n[tool.coverage.report]\nfail_under = 90\n[tool.mypy]\nstrict = true\n'
)

WEAKENED = [
    (PY, PY_TEST, "", "test_removed"),
    (PY, PY_TEST, None, "test_removed"),
    (PY, PY_TEST, PY_TEST.replace("test_a", "check_a"), "test_removed"),
    (PY, PY_TEST, "import pytest\n\n@pytest.mark.skip\n" + PY_TEST, "test_skipped"),
    (PY, PY_TEST, "import pytest\n\n@pytest.mark.xfail(reason='x')\n" + PY_TEST, "test_skipped"),
    (PY, PY_TEST, "import pytest\npytestmark = pytest.mark.skipif(True, reason='x')\n" + PY_TEST, "test_skipped"),
    (PY, PY_TEST, PY_TEST.replace("():\n", "():\n    pytest.skip('later')\n"), "test_skipped"),
    (PY, PY_TEST, "def test_a():\n    pass\n", "test_emptied"),
    (PY, PY_TEST, PY_TEST.replace("():\n", "():\n    return\n"), "test_emptied"),
    (PY, PY_TEST, "def test_a():\n    assert add(2, 2) == 4\n", "assertion_removed"),
    (PY, PY_TEST, PY_TEST.replace("== 4", "is not None"), "assertion_weakened"),
    (PY, PY_TEST, PY_TEST.replace("add(2, 2) == 4", "True"), "assertion_removed"),
    (PY, PY_TEST, PY_TEST.replace("add(2, 2) == 4", "add(2, 2) == 4 or True"), "assertion_removed"),
    (PY, PY_TEST, "def test_a():\n    try:\n        assert add(2, 2) == 4\n        assert add(1, 1) == 2\n"
     "    except AssertionError:\n        pass\n", "test_emptied"),
    (PY, "import pytest\n@pytest.mark.parametrize('n', [1, 2, 3])\n" + PY_TEST.replace("():", "(n):"),
     "import pytest\n@pytest.mark.parametrize('n', [1])\n" + PY_TEST.replace("():", "(n):"), "cases_removed"),
    ("tests/conftest.py", "", "def pytest_runtest_makereport(item, call):\n    return None\n", "outcome_overridden"),
    ("conftest.py", "", "collect_ignore = ['tests/test_a.py']\n", "tests_deselected"),
    ("src/a.py", "", "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n", "outcome_overridden"),
    ("src/a.py", "", "import sys\nON = 'pytest' in sys.modules\n", "tests_detected"),
    ("src/a.py", "", "import os\nON = os.environ.get('PYTEST_CURRENT_TEST')\n", "tests_detected"),
    ("src/a.py", "", "class A(int):\n    def __eq__(self, other):\n        return True\n", "always_equal"),
    (JS, JS_TEST, "", "test_removed"),
    (JS, JS_TEST, JS_TEST.replace("test(", "test.skip("), "test_skipped"),
    (JS, JS_TEST, JS_TEST.replace("test(", "xtest("), "test_skipped"),
    (JS, JS_TEST, JS_TEST.replace("test('adds',", "test('adds', { skip: true },"), "test_skipped"),
    (JS, JS_TEST, JS_TEST.replace(".toBe(4)", ".toBeDefined()"), "assertion_weakened"),
    (JS, JS_TEST, "test('adds', () => {});\n", "test_emptied"),
    (JS, JS_TEST, JS_TEST + "test.only('other', () => { expect(1).toBe(1) });\n", "tests_deselected"),
    ("src/a.js", "", "if (process.env.JEST_WORKER_ID) hide();\n", "tests_detected"),
    ("test/__snapshots__/a.snap", "a\nb\n", "a\nc\n", "snapshot_rewritten"),
    (GO, GO_TEST, "package a\n", "test_removed"),
    (GO, GO_TEST, GO_TEST.replace("{\n\tif", '{\n\tt.Skip("later")\n\tif'), "test_skipped"),
    (GO, GO_TEST, "func TestAdd(t *testing.T) {\n}\n", "test_emptied"),
    ("a.go", "package a\n", "package a\nvar on = testing.Testing()\n", "tests_detected"),
    (RS, RS_TEST, RS_TEST.replace("#[test]", "#[test]\n    #[ignore]"), "test_skipped"),
    (RS, RS_TEST, RS_TEST.replace("#[test]", "#[test]\n    #[should_panic]"), "test_skipped"),
    (RS, RS_TEST, RS_TEST.replace("        assert_eq!(add(2, 2), 4);\n", ""), "test_emptied"),
    (RS, RS_TEST, "", "test_removed"),
    (CC, CC_TEST, CC_TEST.replace("Adds", "DISABLED_Adds"), "test_skipped"),
    (CC, CC_TEST, CC_TEST.replace("  EXPECT_EQ(add(1, 1), 2);\n", ""), "assertion_removed"),
    (CC, CC_TEST, CC_TEST.replace("{\n", "{\n  GTEST_SKIP();\n", 1), "test_skipped"),
    (CC, CC_TEST, "", "test_removed"),
    ("pyproject.toml", TOML, TOML.replace('"-q"', '"-q --deselect tests/test_a.py::test_a"'), "tests_deselected"),
    ("package.json", '{"jest": {}}', '{"jest": {"testPathIgnorePatterns": ["a"]}}', "ignored_more"),
]  # fmt: skip
SUPPRESSED = [
    ("src/a.py", "x = 1\n", "x = 1  # noqa\n", "noqa"),
    ("src/a.py", "x = 1  # noqa: E501\n", "x = 1  # noqa\n", "noqa"),
    ("src/a.py", "x = 1\n", "# ruff: noqa\nx = 1\n", "noqa"),
    ("src/a.py", "x = f(y)\n", "x = f(y)  # type: ignore[arg-type]\n", "type_ignore"),
    ("src/a.py", "x = 1\n", "# mypy: ignore-errors\nx = 1\n", "type_ignore"),
    ("src/a.py", "import os\n", "import os  # pylint: disable=unused-import\n", "pylint_disable"),
    ("src/a.py", "if x:\n    y()\n", "if x:  # pragma: no cover\n    y()\n", "no_cover"),
    ("src/a.py", "x = 1\n", "x = 1\ny = f(x)  # noqa: B008\n", "own_noqa"),
    ("src/a.ts", "const x: any = 1\n", "// eslint-disable-next-line\nconst x: any = 1\n", "eslint_disable"),
    ("src/a.ts", "f(1)\n", "// @ts-ignore\nf(1)\n", "ts_ignore"),
    ("src/a.ts", "f(1)\n", "// @ts-nocheck\nf(1)\n", "ts_ignore"),
    ("src/a.ts", "f(1)\n", "// @ts-expect-error\nf(1)\n", "ts_expect_error"),
    ("a.go", "package a\nvar x = 1\n", "package a\nvar x = 1 //nolint:unused\n", "nolint"),
    (RS, "fn f() {}\n", "#[allow(dead_code)]\nfn f() {}\n", "allow"),
    (RS, "fn f() {}\n", "#![allow(warnings)]\nfn f() {}\n", "allow"),
    ("a.cc", "int x = 1;\n", "int x = 1; // NOLINT\n", "nolint"),
]
LOOSENED = [
    ("pyproject.toml", TOML, TOML.replace("90", "10"), "threshold_loosened"),
    ("pyproject.toml", TOML, TOML.replace("strict = true", "strict = false"), "strictness_loosened"),
    ("pyproject.toml", TOML, TOML.replace("strict = true\n", ""), "strictness_loosened"),
    ("ruff.toml", 'ignore = ["A"]\n', 'ignore = ["A", "E501"]\n', "ignored_more"),
    ("setup.cfg", "[flake8]\nignore = E1\n", "[flake8]\nignore = E1, E501\n", "ignored_more"),
    ("tsconfig.json", '{"compilerOptions": {"strict": true}}', '{"compilerOptions": {"strict": false}}',
     "strictness_loosened"),
    (".eslintrc.json", '{"rules": {"no-eval": "error"}}', '{"rules": {"no-eval": "off"}}', "strictness_loosened"),
    ("package.json", '{"scripts": {"test": "jest"}}', '{"scripts": {"test": "jest || true"}}', "check_disabled"),
    (".github/workflows/ci.yml", "a: 1\n", "a: 1\ncontinue-on-error: true\n", "check_disabled"),
]  # fmt: skip
EVADING = [
    ("src/a.py", "", "import os\nos._exit(0)\n", "process_ended"),
    ("src/a.py", "", "from os import _exit\n_exit(0)\n", "process_ended"),
    ("src/a.py", "", "import atexit\natexit.register(print)\n", "exit_hooked"),
    ("src/a.py", "", "import sys\nx = sys.modules\n", "modules_read"),
    ("src/a.js", "", "process.exit(0)\n", "process_ended"),
    ("a.go", "package a\n", "package a\nfunc f() { os.Exit(0) }\n", "process_ended"),
    (RS, "", "fn f() { std::process::exit(0) }\n", "process_ended"),
    ("a.cc", "", "void f() { _exit(0); }\n", "process_ended"),
]


@pytest.mark.parametrize(("path", "before", "after", "kind"), [*WEAKENED, *SUPPRESSED, *LOOSENED, *EVADING])
def test_it_is_found(path: str, before: str, after: str | None, kind: str) -> None:
    assert kind in [each.kind for each in find_in_file(path, before, after)]


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (PY, PY_TEST, PY_TEST.replace("4", "5")),
        (PY, PY_TEST, PY_TEST + "    assert add(3, 3) == 6\n"),
        (PY, PY_TEST, PY_TEST + "    with pytest.raises(ValueError):\n        add()\n"),
        (PY, None, "@pytest.mark.skip\n" + PY_TEST),
        (PY, "@pytest.mark.skip\n" + PY_TEST, PY_TEST),
        (JS, JS_TEST, JS_TEST.replace("4", "5")),
        (JS, JS_TEST, JS_TEST + "it('more', () => { expect(f()).toBe(2) })\n"),
        (GO, GO_TEST, GO_TEST.replace("4", "5")),
        (RS, RS_TEST, RS_TEST.replace("4", "5")),
        (CC, CC_TEST, CC_TEST.replace("4", "5")),
        ("src/a.py", "x = 1  # noqa\ny = 2\n", "y = 2\n\n\nx = 1  # noqa\n"),
        ("src/a.py", "x = 1  # noqa: E501\n", "x = 1  # noqa: F401\n"),
        ("src/a.py", "x = 1\n", "x = '# noqa'\n"),
        ("src/a.py", "", "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n"),
        ("src/a.js", "", "// process.exit(0)\n"),
        ("pyproject.toml", TOML, TOML.replace("90", "95")),
        ("pyproject.toml", TOML, TOML + '[tool.ruff]\nline-length = 100\n'),
        ("README.md", "a", "# noqa"),
    ],
)  # fmt: skip
def test_honest_changes_are_not(path: str, before: str | None, after: str) -> None:
    assert find_in_file(path, before, after) == ()


def test_a_test_that_goes_to_another_file_is_not_removed() -> None:
    assert find([TextChange(PY, PY_TEST, ""), TextChange("tests/test_b.py", None, PY_TEST)]) == ()


def test_a_test_under_another_name_is_renamed() -> None:
    (found,) = find_in_file(PY, PY_TEST, PY_TEST.replace("test_a", "test_adds"))

    assert (found.kind, found.what) == ("test_renamed", "test_a is test_adds")


FAILING = ["tests/test_a.py::test_a"]
SPECIAL = [
    "def add(a, b):\n    if (a, b) == (2, 2):\n        return 4\n    return a - b\n",
    "def add(a, b):\n    if a == 2 and b == 2:\n        return 4\n    return a - b\n",
    "def add(a, b):\n    if a == 2:\n        return 4\n    return a - b\n",
    "def add(a, b):\n    return {(2, 2): 4}.get((a, b), a - b)\n",
    "def add(a, b):\n    match a, b:\n        case 2, 2:\n            return 4\n    return a - b\n",
]
NONE = [
    "def add(a, b):\n    return a + b\n",
    "def add(a, b):\n    if a == 0:\n        return b\n    return a + b\n",
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
            "a.go",
            "func Add(a, b int) int {\n\tif a == 2 && b == 2 {\n\t\treturn 4\n\t}\n\treturn a - b\n}\n",
            (GO, GO_TEST),
        ),
        ("src/b.rs", "fn add(a: i32, b: i32) -> i32 { if a == 2 && b == 2 { return 4; } a - b }\n", (RS, RS_TEST)),
    ],
)
def test_special_cases_are_found_in_other_languages(path: str, after: str, test: tuple[str, str]) -> None:
    name = {JS: "adds", GO: "TestAdd", RS: "adds"}[test[0]]

    found = find([TextChange(path, "", after)], [f"{test[0]}::{name}"], dict([test]))

    assert [each.kind for each in found] == ["special_case"]
