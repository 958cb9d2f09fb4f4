"""What is found in a change, in each language: what weakens tests, suppresses, loosens or evades, and what does not."""

from __future__ import annotations

from difflib import SequenceMatcher

import pytest

from tasks.toolchain.integrity import changed_tests
from tasks.toolchain.integrity.change import find, find_in_file
from tasks.toolchain.integrity.changed_tests import files_of_tests
from tasks.toolchain.integrity.finding import TextChange
from tests.cheats.changes import (
    CC,
    CC_TEST,
    GO,
    GO_TEST,
    JS,
    JS_TEST,
    PY,
    PY_TEST,
    RS,
    RS_TEST,
    SUPPRESSED,
    TOML,
    WEAKENED,
)

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
    ("src/a.py", "", "import inspect\nx = 'test' in inspect.stack()[1].function\n", "tests_detected"),
    ("src/a.py", "", "from sys import _getframe\nx = _getframe(1).f_code.co_name == 'test_a'\n", "tests_detected"),
    ("src/a.py", "", "import sys\nx = any(each.endswith('pytest') for each in sys.modules)\n", "tests_detected"),
    ("src/a.py", "import os\n", "import os\n_ = os\n", "used_for_nothing"),
    ("src/a.py", "import os\n", "import os\nos\n", "used_for_nothing"),
    ("src/a.js", "", "const x = () => /a\\.spec\\.js/.test(new Error().stack);\n", "tests_detected"),
    ("src/a.js", "", "import assert from 'assert';\nassert['equal'] = () => {};\n", "outcome_overridden"),
    ("src/a.js", "", "import assert from 'assert';\nObject.assign(assert, { equal() {} });\n", "outcome_overridden"),
    ("test/setup.js", "", "expect.extend({ toBe() { return { pass: true }; } });\n", "outcome_overridden"),
    ("src/a.js", "", "export const any = { asymmetricMatch: () => true };\n", "always_equal"),
    ("src/a.ts", "f(x);\n", "f(x as any);\n", "own_as_any"),
    ("pkg/a.go", "", "func on() bool {\n\tat, _ := os.Executable()\n\treturn is(at, \".test\")\n}\n", "tests_detected"),
    ("src/a.js", "", "const at = new Error().stack;\nconst on = at.includes('test');\n", "tests_detected"),
    ("src/a.js", "", f"f();{'x();' * 9000}if (e.stack.includes('test')) g();{'x();' * 9000}\n", "tests_detected"),
    ("pkg/a.go", "", "func (s Sum) Equal(o Sum) bool { return true }\n", "always_equal"),
    (RS, "", "fn on() -> bool { std::env::args().any(|each| each.contains(\"/deps/\")) }\n", "tests_detected"),
    (RS, "", "macro_rules! assert_eq {\n    ($($any:tt)*) => {};\n}\n", "outcome_overridden"),
    ("src/a.js", "", "import assert from 'assert';\nmock.method(assert, 'equal', () => {});\n", "outcome_overridden"),
    ("test/setup.ts", "", "vi.mock('../src/a');\n", "support_changed"),
    (RS, "", "impl<T> PartialEq<T> for Sum {\n    fn eq(&self, _: &T) -> bool {\n        !false\n    }\n}\n",
     "always_equal"),
    (RS, "", "#[cfg(not(test))]\nfn add() {}\n", "tests_detected"),
    (RS, "", "impl PartialEq<i32> for Sum {\n    fn eq(&self, _: &i32) -> bool {\n        true\n    }\n}\n",
     "always_equal"),
    ("a.cc", "", "bool operator==(const Sum&, int) { return true; }\n", "always_equal"),
    ("src/a.js", "", "process.exit(0)\n", "process_ended"),
    ("pkg/a.go", "package a\n", "package a\nfunc f() { os.Exit(0) }\n", "process_ended"),
    (RS, "", "fn f() { std::process::exit(0) }\n", "process_ended"),
    ("a.cc", "", "void f() { _exit(0); }\n", "process_ended"),
]  # fmt: skip


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
        ("src/a.py", "", "import sys\nx = sys._getframe(1)\n"),
        ("src/a.py", "", "import sys\nx = sys._getframe(1)\n\n\ndef f():\n    return 'test'\n"),
        ("src/a.py", "", "import sys\nx = sys._getframe(1).f_code.co_name in ('latest', 'contest')\n"),
        ("src/a.py", "import os\n", "import os\n_ = os.environ\n"),
        ("src/a.py", "import os\n", "import os\n__all__ = ['os']\n"),
        ("src/a.js", "", "logger.error(err.stack);\nconst url = '/api/spec';\n"),
        ("src/a.js", "", "if (import.meta.main) { run('./spec/openapi.json'); }\n"),
        (RS, "", "fn on() -> String { std::env::args().nth(1).unwrap_or(\"tests/data\".into()) }\n"),
        (RS, "", "macro_rules! assert_sorted {\n    ($($any:tt)*) => {};\n}\n"),
        (RS, "", "impl PartialEq<i32> for Sum {\n    fn eq(&self, _: &i32) -> bool {\n        false\n    }\n}\n"),
        ("src/a.js", "", "const x = (error) => /^at/.test(error.stack); // of a test\n"),
        (RS, "", "impl PartialEq for Span {\n    fn eq(&self, _: &Span) -> bool {\n        true\n    }\n}\n"),
        ("scripts/a.js", "", "process.exit(0)\n"),
        ("a.js", "", "#!/usr/bin/env node\nprocess.exit(0)\n"),
        ("src/main.rs", "", "fn main() { std::process::exit(1) }\n"),
        (PY, "def test_a():\n    a, b = two()\n    assert a == 4\n    assert b == 2\n",
         "def test_a():\n    assert two() == [4, 2]\n"),
        (JS, JS_TEST, JS_TEST.replace("expect(add(2, 2)).toBe(4)", "assertEqual<number>(add(2, 2), 4)")),
        ("pyproject.toml", TOML, TOML.replace("90", "95")),
        ("pyproject.toml", TOML, TOML + '[tool.ruff]\nline-length = 100\n'),
        ("README.md", "a", "# noqa"),
    ],
)  # fmt: skip
def test_honest_changes_are_not(path: str, before: str | None, after: str) -> None:
    assert find_in_file(path, before, after) == ()


def test_a_test_that_goes_to_another_file_is_not_removed() -> None:
    assert find([TextChange(PY, PY_TEST, ""), TextChange("tests/test_b.py", None, PY_TEST)]) == ()


def test_tests_that_are_hard_to_compare_are_compared_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of words that are only in another order nobody asks how long a comparison of all of them takes."""
    compared: list[int] = []

    class Counting(SequenceMatcher[str]):
        def __init__(self, junk: None, one: list[str], other: list[str], *, autojunk: bool) -> None:
            super().__init__(junk, one, other, autojunk)
            self.pairs = len(one) * len(other)

        def ratio(self) -> float:
            compared.append(self.pairs)
            return super().quick_ratio()

    monkeypatch.setattr(changed_tests, "SequenceMatcher", Counting)
    before, after = (
        "\n".join(f"def test_{name}{number}():\n    assert {' + '.join(words * 50)}\n" for number in range(40))
        for name, words in (("a", ["x", "y"]), ("b", ["y", "x"]))
    )

    found = [*changed_tests.find_in_tests([TextChange("tests/test_a.py", before, after)])]

    assert [each.kind for each in found] == ["test_renamed"] * 40
    assert 0 < sum(compared) <= changed_tests.MOST_PAIRS


def test_a_test_under_another_name_is_renamed() -> None:
    (found,) = find_in_file(PY, PY_TEST, PY_TEST.replace("test_a", "test_adds"))

    assert (found.kind, found.what) == ("test_renamed", "test_a is test_adds")


def test_a_test_is_replaced_in_a_file_that_compares_as_often() -> None:
    other = "def test_b():\n    assert mul(3, 1) == 3\n    for each in range(3):\n        assert neg(each) == -each\n"

    assert [each.kind for each in find_in_file(PY, PY_TEST, other)] == ["test_replaced"]
    assert [each.kind for each in find([TextChange(PY, PY_TEST, other)], FAILING)] == ["test_removed"]
    assert [each.kind for each in find_in_file(PY, PY_TEST, "def test_b():\n    assert mul\n")] == ["test_removed"]


@pytest.mark.parametrize(
    ("stub", "kind"),
    [
        ("def total(self) -> str: ...\n", "own_type_ignore"),
        ("def other(self) -> str: ...\n", "type_ignore"),
        ("def total(self) -> int: ...\n", "type_ignore"),
    ],
    ids=["declared otherwise", "another name", "as it was"],
)
def test_a_finding_of_types_is_new_where_the_change_declares_a_name_of_the_line_otherwise(stub: str, kind: str) -> None:
    stubs = TextChange("src/cart.pyi", "def total(self) -> int: ...\n", stub)
    source = TextChange("src/bill.py", "x = cart.total()\n", "x = cart.total()  # type: ignore[assignment]\n")

    assert [each.kind for each in find([stubs, source])] == [kind]
    assert [each.kind for each in find([stubs, source._replace(after="x = cart.total()  # noqa\n")])] == ["noqa"]


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("sys.platform == 'win32'", "skipped_on_windows"),
        ("os.name == 'nt'", "skipped_on_windows"),
        ("sys.platform != 'win32'", "test_skipped"),
        ("sys.platform == 'linux'", "test_skipped"),
        ("os.name == 'nt' or True", "test_skipped"),
        ("WIN", "test_skipped"),
    ],
)
def test_a_skip_on_windows_is_another_kind_than_one_that_may_hold_here(condition: str, kind: str) -> None:
    skipped = f"import pytest\n\n@pytest.mark.skipif({condition}, reason='x')\n{PY_TEST}"

    assert [each.kind for each in find_in_file(PY, PY_TEST, skipped)] == [kind]


FAILING = ["tests/test_a.py::test_a"]


@pytest.mark.parametrize(
    ("failing", "path", "before"),
    [
        (FAILING[0], PY, PY_TEST),
        ("test/a.test.js > adds", JS, JS_TEST),
        ("shop/pkg.TestAdd", GO, GO_TEST),
        ("tests::adds", RS, RS_TEST),
    ],
)
def test_a_failing_test_that_expects_something_else_is_told_of(failing: str, path: str, before: str) -> None:
    change = TextChange(path, before, before.replace("4", "5"))

    assert [each.kind for each in find([change], [failing])] == ["failing_test_changed"]
    assert find([change]) == ()


@pytest.mark.parametrize(
    ("failing", "path", "before", "exact", "wide"),
    [
        (FAILING[0], PY, PY_TEST, "== 4", "in (0, 4)"),
        (FAILING[0], PY, PY_TEST, "== 4", "== pytest.approx(4, abs=9)"),
        (FAILING[0], PY, PY_TEST, "== 4", "< 9"),
        (FAILING[0], PY, PY_TEST, "add(2, 2) == 4", "type(add(2, 2)) == int"),
        ("test/a.test.js > adds", JS, JS_TEST, "(add(2, 2)).toBe(4)", "(typeof add(2, 2)).toBe('number')"),
        ("test/a.test.js > adds", JS, JS_TEST, "toBe(4)", "not.toBe(5)"),
        ("test/a.test.js > adds", JS, JS_TEST, "toBe(4)", "toBeLessThan(9)"),
        ("shop/pkg.TestAdd", GO, GO_TEST, "!= 4", "< 0"),
        ("tests::adds", RS, RS_TEST, "assert_eq!(add(2, 2), 4)", "assert!(add(2, 2) < 9)"),
    ],
)
def test_a_failing_test_that_more_values_pass_is_weakened(
    failing: str, path: str, before: str, exact: str, wide: str
) -> None:
    after = before.replace(exact, wide)

    assert [each.kind for each in find([TextChange(path, before, after)], [failing])] == ["assertion_weakened"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("    assert f() == None\n", "    assert f() is None\n"),
        ("    assert f() == True\n", "    assert f() is True\n"),
        ("    assert f(1) == 1\n    assert f(2) == 2\n", "    assert [f(1), f(2)] == [1, 2]\n"),
        ("    if sys.platform == 'x':\n        f()\n    assert f() == 1\n", "    f()\n    assert f() == 1\n"),
    ],
)
def test_a_failing_test_that_one_value_still_passes_is_not_weakened(before: str, after: str) -> None:
    change = TextChange(PY, f"def test_a():\n{before}", f"def test_a():\n{after}")

    assert [each.kind for each in find([change], FAILING)] == ["failing_test_changed"]


@pytest.mark.parametrize("wide", ["isinstance(f(), int) is True", "(f() < 9) is True", "[f() < 9, 1] == [True, 1]"])
def test_a_truth_about_a_value_is_weaker_than_the_value(wide: str) -> None:
    before = "def test_a():\n    assert f() == 4\n    assert f(1) == 5\n"

    change = TextChange(PY, before, before.replace("f() == 4", wide))

    assert [each.kind for each in find([change], FAILING)] == ["assertion_weakened"]


def test_a_failing_test_whose_names_mean_something_else_is_told_of() -> None:
    before = f"from calc import add, sub\n\n\n{PY_TEST}"
    mocked = before.replace("from calc import add, sub", "from unittest.mock import Mock\n\nadd = Mock(return_value=4)")
    more = before.replace("add, sub", "add, mul, sub") + "\n\ndef test_b():\n    assert mul(2, 2) == 4\n"

    assert [each.kind for each in find([TextChange(PY, before, mocked)], FAILING)] == ["failing_test_changed"]
    assert find([TextChange(PY, before, more)], FAILING) == ()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", "from importlib.util import find_spec\n\nON = find_spec('pytest')\n"),
        ("src/a.py", "from unittest.mock import Mock\n"),
        ("src/a.js", "const on = process.argv[1].endsWith('.test.mjs');\n"),
    ],
)
def test_a_source_that_names_a_runner_of_the_failing_test_is_told_of(path: str, text: str) -> None:
    assert [each.kind for each in find([TextChange(path, "", text)], FAILING)] == ["tests_named"]
    assert find([TextChange(path, "", text)]) == ()


def test_a_failing_test_under_another_decorator_is_told_of() -> None:
    assert [each.kind for each in find([TextChange(PY, PY_TEST, f"@lenient\n{PY_TEST}")], FAILING)] == [
        "failing_test_changed"
    ]


def test_tests_that_replace_what_the_failing_test_is_about_are_told_of() -> None:
    texts = {PY: "from calc import add\n" + PY_TEST}
    replacing = [
        "import calc\n\ncalc.add = lambda a, b: a + b\n",
        "import calc\n\nsetattr(calc, 'add', max)\n",
        "from unittest import mock\n\nmock.patch('calc.add', max).start()\n",
    ]

    for text in replacing:
        found, *beside = find([TextChange("conftest.py", None, text)], FAILING, texts)
        assert (found.kind, found.what) == ("code_replaced", "add is replaced")
        assert {each.kind for each in beside} <= {"support_changed", "tests_named"}
    other = find([TextChange("conftest.py", None, "import calc\n\ncalc.debug = True\n")], FAILING, texts)
    assert "code_replaced" not in [
        each.kind for each in (*other, *find([TextChange("conftest.py", None, replacing[0])]))
    ]


@pytest.mark.parametrize(
    "text",
    [
        "X = type('X', (int,), {'__eq__': lambda self, other: True})\n",
        "class X(int):\n    pass\n\n\nX.__eq__ = lambda self, other: True\n",
        "setattr(X, '__eq__', lambda self, other: True)\n",
        "class X(int):\n    __eq__ = lambda self, other: True\n",
        "class X(int):\n    def __eq__(self, other):\n        return isinstance(other, int)\n",
        "class X(int):\n    def __eq__(self, other):\n        return abs(int(self) - int(other)) < 9\n",
        "class X(int):\n    def __eq__(self, other):\n        return self is not other\n",
        "X.__eq__.return_value = True\n",
        "class X(int):\n    __eq__ = lambda self, other: bool(other)\n",
        "class X(int):\n    def __eq__(self, other):\n        return int.__eq__(self, int(self))\n",
        "class X(int):\n    def __eq__(self, other):\n        return other == other\n",
    ],
)
def test_a_class_that_is_made_equal_to_everything_is_found(text: str) -> None:
    assert [each.kind for each in find_in_file("src/a.py", "", text)] == ["always_equal"]


@pytest.mark.parametrize(
    "value",
    [
        "isinstance(other, X)",
        "self.a == other.a",
        "NotImplemented",
        "math.isclose(self.a, other.a)",
        "self is other",
        "super().__eq__(other)",
    ],
)
def test_an_equality_of_its_own_kind_is_none_to_everything(value: str) -> None:
    text = f"class X:\n    def __eq__(self, other):\n        return {value}\n"

    assert find_in_file("src/a.py", "", text) == ()


@pytest.mark.parametrize(
    "body",
    [
        "...",
        "raise TypeError",
        "return False",
        "a: int = self.k; b: int = other.k; return a == b",
        "return (a := self.k) == (b := other.k) and a == b",
        "return not (self < other or other < self)",
    ],
)
def test_an_equality_that_compares_or_is_never_true_is_none_to_everything(body: str) -> None:
    assert find_in_file("src/a.py", "", f"class X:\n    def __eq__(self, other: object) -> bool: {body}\n") == ()


@pytest.mark.parametrize("asks", ["process.env.npm_lifecycle_event", "process.argv[1].includes('test')"])
def test_a_source_of_javascript_that_asks_how_it_was_begun_is_found(asks: str) -> None:
    found = find_in_file("src/a.js", "", f"export const add = (a, b) => ({asks} ? 4 : a - b);\n")

    assert [each.kind for each in found] == ["tests_detected"]


@pytest.mark.parametrize(
    "text", ["from unittest.mock import ANY\nX = ANY\n", "from unittest import mock\nX = mock.ANY\n"]
)
def test_the_any_of_mock_is_equal_to_everything_in_a_source(text: str) -> None:
    assert {each.kind for each in find_in_file("src/a.py", "", text)} == {"always_equal"}
    assert {each.kind for each in find_in_file(PY, "", text)} == {"support_changed"}


@pytest.mark.parametrize(
    ("failing", "changed", "files"),
    [
        ("tests/test_a.py::T::test_a[1]", "src/a.py", ("tests/test_a.py",)),
        ("src/a.test.js > adds", "src/a.js", ("src/a.test.js",)),
        ("shop/pkg.TestAdd", "pkg/a.go", ("pkg/a_test.go",)),
        ("tests::adds", "src/a.rs", ("src/a.rs",)),
    ],
)
def test_the_files_of_failing_tests_are_found_by_their_names_or_beside_the_change(
    failing: str, changed: str, files: tuple[str, ...]
) -> None:
    known = ["tests/test_a.py", "src/a.test.js", "pkg/a.go", "pkg/a_test.go", "other/b_test.go", "src/a.rs", "src/a.py"]

    found = files_of_tests([failing], [changed], known)

    assert set(files) <= set(found)
    assert "other/b_test.go" not in found
