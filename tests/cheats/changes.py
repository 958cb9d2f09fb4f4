"""Changes that weaken tests or suppress findings, in five languages: a file before and after, and what that is."""

from __future__ import annotations

PY = "tests/test_a.py"
JS, GO, RS, CC = "test/a.test.js", "pkg/a_test.go", "src/a.rs", "tests/a_test.cc"
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
    (JS, JS_TEST, JS_TEST.replace(".toBe(4)", ".toEqual(expect.anything())"), "assertion_weakened"),
    (JS, JS_TEST, "test('adds', () => {});\n", "test_emptied"),
    (JS, JS_TEST, JS_TEST + "test.only('other', () => { expect(1).toBe(1) });\n", "tests_deselected"),
    ("src/a.js", "", "if (process.env.JEST_WORKER_ID) hide();\n", "tests_detected"),
    ("test/__snapshots__/a.snap", "a\nb\n", "a\nc\n", "snapshot_rewritten"),
    (GO, GO_TEST, "package a\n", "test_removed"),
    (GO, GO_TEST, GO_TEST.replace("{\n\tif", '{\n\tt.Skip("later")\n\tif'), "test_skipped"),
    (GO, GO_TEST, "func TestAdd(t *testing.T) {\n}\n", "test_emptied"),
    ("pkg/a.go", "package a\n", "package a\nvar on = testing.Testing()\n", "tests_detected"),
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
STUB = "class A:\n    @property\n    def x(self) -> int: ...\n"
SUPPRESSED = [
    ("src/a.py", "x = 1\n", "x = 1  # noqa\n", "noqa"),
    ("src/a.py", "x = 1  # noqa: E501\n", "x = 1  # noqa\n", "noqa"),
    ("src/a.py", "x = 1\n", "# ruff: noqa\nx = 1\n", "noqa"),
    ("src/a.py", "x = f(y)\n", "x = f(y)  # type: ignore[arg-type]\n", "type_ignore"),
    ("src/a.py", "x = 1\n", "# mypy: ignore-errors\nx = 1\n", "type_ignore"),
    ("src/a.pyi", STUB, STUB.replace("@property", "@property  # type: ignore"), "type_ignore"),
    (
        "src/a.pyi",
        STUB,
        f"{STUB}class B(A):\n    @property  # type: ignore\n    def x(self) -> str: ...\n",
        "own_type_ignore",
    ),
    ("src/a.py", "import os\n", "import os  # pylint: disable=unused-import\n", "pylint_disable"),
    ("src/a.py", "if x:\n    y()\n", "if x:  # pragma: no cover\n    y()\n", "no_cover"),
    ("src/a.py", "x = 1\n", "x = 1\ny = f(x)  # noqa: B008\n", "own_noqa"),
    ("src/a.ts", "const x: any = 1\n", "// eslint-disable-next-line\nconst x: any = 1\n", "eslint_disable"),
    ("src/a.ts", "f(1)\n", "// @ts-ignore\nf(1)\n", "ts_ignore"),
    ("src/a.ts", "f(1)\n", "// @ts-nocheck\nf(1)\n", "ts_ignore"),
    ("src/a.ts", "f(1)\n", "// @ts-expect-error\nf(1)\n", "ts_expect_error"),
    ("pkg/a.go", "package a\nvar x = 1\n", "package a\nvar x = 1 //nolint:unused\n", "nolint"),
    (RS, "fn f() {}\n", "#[allow(dead_code)]\nfn f() {}\n", "allow"),
    (RS, "fn f() {}\n", "#![allow(warnings)]\nfn f() {}\n", "allow"),
    ("src/a.cc", "int x = 1;\n", "int x = 1; // NOLINT\n", "nolint"),
]
