"""The files that real output of quality tools names."""

from __future__ import annotations

import pytest

from tasks.strategies.gap_report import evidence
from tasks.strategies.gap_report.places import Places
from tasks.strategies.gap_report.tally import tell_tally
from tests.support.kinds.gap_report import a_gap, a_goal, targets

RUFF = """src/a.py:1:1: I001 [*] Import block is un-sorted or un-formatted
src/t/test_b.py:1:8: F401 [*] `nothere` imported but unused
Found 2 errors.
[*] 2 fixable with `--fix`.
"""
RUFF_FULL = """I001 [*] Import block is un-sorted or un-formatted
 --> src/a.py:1:1
  |
1 | import os
  | ^^^^^^^^^
help: Organize imports

F401 [*] `nothere` imported but unused
  --> src/t/test_b.py:1:8
   |
10 | import nothere
   |        ^^^^^^^
"""
RUFF_GROUPED = """src/a.py:
  1:1 I001 [*] Import block is un-sorted or un-formatted
  1:8 F401 [*] `os` imported but unused

src/t/test_b.py:
  1:8 F401 [*] `nothere` imported but unused
"""
RUFF_GITHUB = """::error title=ruff (I001),file=/w/shop/src/a.py,line=1,col=1,endLine=1::src/a.py:1:1: I001 Import block
::error title=ruff (F401),file=/w/shop/src/t/test_b.py,line=1,col=8,endLine=1::src/t/test_b.py:1:8: F401 unused
"""
MYPY = """src/a.py:3: error: Incompatible return value type (got "int", expected "str")  [return-value]
src/t/test_b.py:1:8: error: Cannot find implementation or library stub for module named "nothere"  [import-not-found]
src/t/test_b.py:1:8: note: See https://mypy.readthedocs.io/en/stable/running_mypy.html#missing-imports
Found 2 errors in 2 files (checked 3 source files)
"""
PYRIGHT = """/home/runner/work/shop/shop/src/a.py
  /home/runner/work/shop/shop/src/a.py:3:12 - error: Type "int" is not assignable to return type "str"
    "int" is not assignable to "str" (reportReturnType)
/home/runner/work/shop/shop/src/t/test_b.py
  /home/runner/work/shop/shop/src/t/test_b.py:1:8 - warning: Import "nothere" could not be resolved
1 error, 1 warning, 0 informations
"""
PYTEST = """=================================== FAILURES ===================================
____________________________________ test_x ____________________________________

    def test_x():
>       assert f(1) == "1"
E       AssertionError: assert 1 == '1'

src/a.py:6: AssertionError
=========================== short test summary info ============================
FAILED src/a.py::test_x - AssertionError: assert 1 == '1'
ERROR src/t/test_b.py
1 failed, 1 error in 0.30s
"""
PYTEST_COLLECTION = """_______________________ ERROR collecting src/t/test_b.py _______________________
ImportError while importing test module '/w/shop/src/t/test_b.py'.
Traceback:
/root/.pyenv/versions/3.11.7/lib/python3.11/importlib/__init__.py:126: in import_module
    return _bootstrap._gcd_import(name[level:], package, level)
src/t/test_b.py:1: in <module>
    from src.a import f
src/a.py:2: in <module>
    import nothere
E   ModuleNotFoundError: No module named 'nothere'
"""
PYTEST_NATIVE = """Traceback (most recent call last):
  File "/w/shop/src/a.py", line 3, in f
    raise ValueError
  File "/w/shop/src/t/test_b.py", line 9, in g
ValueError
"""
ESLINT = """
/home/runner/work/shop/shop/src/cart.js
  1:10  error    'total' is defined but never used  no-unused-vars
  3:5   warning  Unexpected console statement       no-console

/home/runner/work/shop/shop/src/list.tsx
  12:1  error  Expected indentation of 2 spaces  indent

\u2716 3 problems (2 errors, 1 warning)
"""
ESLINT_COMPACT = """/w/shop/src/cart.js: line 1, col 10, Error - 'total' is defined but never used. (no-unused-vars)
/w/shop/src/list.tsx: line 12, col 1, Error - Expected indentation (indent)
"""
ESLINT_UNIX = """/w/shop/src/cart.js:1:10: 'total' is defined but never used. [Error/no-unused-vars]
/w/shop/src/list.tsx:12:1: Expected indentation. [Warning/indent]

2 problems
"""
TSC = """src/cart.js(1,7): error TS2322: Type 'string' is not assignable to type 'number'.
src/list.tsx(3,5): error TS2304: Cannot find name 'x'.
"""
TSC_PRETTY = """src/cart.js:1:7 - error TS2322: Type 'string' is not assignable to type 'number'.

1 const x: number = "";
        ~
src/list.tsx:3:5 - error TS2304: Cannot find name 'x'.
"""
GO_VET = """# example.com/shop
./main.go:9:2: fmt.Printf format %d has arg "x" of wrong type string
vet: pkg/cart.go:3:8: could not import nothere (no required module provides package "nothere")
"""
GO_TEST = """--- FAIL: TestCart (0.00s)
    cart.go:12: got 1, want 2
FAIL
"""
CLIPPY = """warning: unneeded `return` statement
 --> src/main.rs:2:5
  |
2 |     return 1;
  |     ^^^^^^^^
  = help: for further information visit https://rust-lang.github.io/rust-clippy/master/index.html#needless_return

error[E0308]: mismatched types
  --> src/lib.rs:10:5
"""
JEST = """FAIL src/cart.test.js
  \u25cf adds
      at Object.<anonymous> (src/list.tsx:3:5)
"""

LISTING = (
    *("src/a.py", "src/t/test_b.py", "src/cart.js", "src/list.tsx", "src/cart.test.js", "main.go", "pkg/cart.go"),
    *("src/main.rs", "src/lib.rs", "__init__.py"),
)
PLACES = Places.of(LISTING, ())
PYTHON, NODE, GO, RUST = [LISTING[:2], LISTING[2:4], LISTING[5:7], LISTING[7:9]]


@pytest.mark.parametrize(
    ("tool", "output", "files"),
    [
        ("ruff", RUFF, PYTHON),
        ("ruff", RUFF_FULL, PYTHON),
        ("ruff", RUFF_GROUPED, PYTHON),
        ("ruff", RUFF_GITHUB, PYTHON),
        ("Ruff 0.15", RUFF.replace("\n", "\r\n"), PYTHON),
        ("mypy", MYPY, PYTHON),
        ("pyright", PYRIGHT, PYTHON),
        ("pyright strict", PYRIGHT.replace("/home/runner/work/shop", "C:\\w").replace("/", "\\"), PYTHON),
        ("pytest", PYTEST, PYTHON),
        ("pytest", PYTEST_COLLECTION, PYTHON[::-1]),
        ("pytest", PYTEST_NATIVE, PYTHON),
        ("eslint", ESLINT, NODE),
        ("eslint", ESLINT_COMPACT, NODE),
        ("eslint", ESLINT_UNIX, NODE),
        ("tsc", TSC, NODE),
        ("tsc", TSC_PRETTY, NODE),
        ("go vet", GO_VET, GO),
        ("go test", GO_TEST, GO[1:]),
        ("clippy", CLIPPY, RUST),
        ("jest", JEST, ("src/cart.test.js", "src/list.tsx")),
    ],
)
def test_the_files_of_a_tools_output_are_found(tool: str, output: str, files: tuple[str, ...]) -> None:
    assert PLACES.locate_all(evidence.mentions(output, tool)) == files


ODD = ("app/(shop)/page.tsx", "src/a b.py", "src/tests/test a (1).py")


@pytest.mark.parametrize(
    ("tool", "output", "files"),
    [
        ("eslint", "/w/shop/app/(shop)/page.tsx\n  1:10  error  x  no-unused-vars\n", ODD[:1]),
        ("eslint", "/w/shop/app/(shop)/page.tsx: line 1, col 10, Error - x\n", ODD[:1]),
        ("tsc", "app/(shop)/page.tsx(1,7): error TS2322: x\n", ODD[:1]),
        ("tsc", "app/(shop)/page.tsx:1:7 - error TS2322: x\n", ODD[:1]),
        ("ruff", "src/a b.py:3:5: F401 unused\n", ODD[1:2]),
        ("ruff", "F401 unused\n --> src/a b.py:3:5\n  |\n", ODD[1:2]),
        ("pyright", "C:\\w\\shop\\src\\a b.py:1:8 - error: x\n", ODD[1:2]),
        ("pytest", "FAILED src/tests/test a (1).py::test_it - x\n", ODD[2:]),
        ("vitest", " \u276f app/(shop)/page.tsx:3:5\n", ODD[:1]),
        ("pytest", '  File "/w/shop/src/a b.py", line 3, in f\n', ODD[1:2]),
        ("ruff", "see src/a b.py: it is nice\n", ()),
    ],
)
def test_files_with_blanks_and_brackets_in_their_names_are_found(
    tool: str, output: str, files: tuple[str, ...]
) -> None:
    places = Places.of((*ODD, "src/b.py", "b.py"), ())

    assert places.locate_all(evidence.mentions(output, tool, places.odd)) == files


@pytest.mark.parametrize(
    ("tool", "output"),
    [
        ("eslint", "/w/app/(shop)/page.tsx\n  1:10  error  x  no-unused-vars\n"),
        ("tsc", "/w/app/(shop)/page.tsx(1,7): error TS2322: x\n"),
        ("ruff", "/w/app/(shop)/page.tsx:1:7: E1 x\n"),
        ("pyright", "/w/app/(shop)/page.tsx:1:7 - error: x\n"),
    ],
)
def test_brackets_belong_to_a_path_where_something_else_ends_it(tool: str, output: str) -> None:
    assert evidence.mentions(output, tool) == ("/w/app/(shop)/page.tsx",)


def test_a_gap_is_about_files_with_blanks_in_their_names_too() -> None:
    gap = a_gap("Quality check failed: ruff", "quality", evidence="src/a b.py:3:5: F401 unused\n")

    assert targets(a_goal(gap, allowed=[*ODD], files=[*ODD])) == [("modify", ("src/a b.py",))]


@pytest.mark.parametrize("output", [RUFF, MYPY, PYTEST, PYRIGHT])
@pytest.mark.parametrize("tool", ["lint", "", "eslint", "my own tool"])
def test_output_of_an_unknown_or_another_tool_is_read_by_every_row(tool: str, output: str) -> None:
    assert set(PLACES.locate_all(evidence.mentions(output, tool))) == set(PYTHON)


@pytest.mark.parametrize("output", ["", "All checks passed!", "E   assert 1 == 2\n  1:1  x\n", "1:2:3: x\n" * 50])
def test_output_that_names_no_file_gives_none(output: str) -> None:
    assert PLACES.locate_all(evidence.mentions(output, "ruff")) == ()


@pytest.mark.parametrize(
    "path",
    ["/usr/lib/python3.11/importlib/__init__.py", "/w/.venv/lib/python3.11/site-packages/x/__init__.py", "/etc/passwd"],
)
def test_files_of_others_are_left_out(path: str) -> None:
    assert PLACES.locate_all(evidence.mentions(f"{path}:1:1: E1 x\n", "ruff")) == ()


@pytest.mark.parametrize("path", ["../../etc/shadow.py", ".git/hooks/x.py", "~/x.py", "src/*.py"])
def test_paths_that_no_step_may_touch_are_left_out(path: str) -> None:
    assert PLACES.locate_all(evidence.mentions(f"{path}:1:1: E1 x\n", "ruff")) == ()


@pytest.mark.parametrize(
    ("description", "tool"),
    [
        ("Quality check failed: ruff", "ruff"),
        ("Quality check failed: go vet: strict", "go vet: strict"),
        ("Linting", "Linting"),
        ("Quality check failed: ", "quality"),
        ("", "quality"),
    ],
)
def test_the_tool_stands_after_the_first_colon(description: str, tool: str) -> None:
    assert evidence.tool_of(description) == tool


@pytest.mark.parametrize(
    "text",
    ["'/" * 8000, " " * 16_000, "a" * 16_000, "a/" * 8000, "a.py:" * 3200, "(" * 16_000, "\n \n" * 5000, "a/:1" * 4000],
)
def test_hostile_output_is_read_in_no_time(text: str) -> None:
    assert len(evidence.mentions(text, "", {"a b"})) <= evidence.MAX_MENTIONS
    assert len(PLACES.named_in(text)) <= 100
    assert len(tell_tally(text)) <= 100


BLACK = """would reformat /home/runner/work/shop/shop/src/a.py
error: cannot format src/t/test_b.py: Cannot parse: 3:4: def f(:

Oh no!
1 file would be reformatted, 1 file would fail to reformat, 14 files would be left unchanged.
"""
ISORT = """ERROR: /home/runner/work/shop/shop/src/a.py Imports are incorrectly sorted and/or formatted.
ERROR: /home/runner/work/shop/shop/src/t/test_b.py Imports are incorrectly sorted and/or formatted.
"""
PRETTIER = """Checking formatting...
[warn] src/cart.js
[error] src/list.tsx: SyntaxError: Unexpected token (3:1)
[warn] Code style issues found in 2 files. Run Prettier with --write to fix.
"""
GOFMT = "main.go\npkg/cart.go\n"
SEMGREP = """
\u250c\u2500\u2500\u2500\u2510
\u2502 2 Code Findings \u2502
\u2514\u2500\u2500\u2500\u2518

    src/a.py
   \u276f\u276f\u2771 rules.bare-except-pass
          A broad except hides errors

          120\u2506 except Exception:

    src/t/test_b.py
   \u276f\u276f\u2771 rules.bare-except-pass
          Details: https://sg.run/src/cart.js
"""
BANDIT = """>> Issue: [B110:try_except_pass] Try, Except, Pass detected.
   More Info: https://bandit.readthedocs.io/en/1.9.4/plugins/b110_try_except_pass.html
   Location: ./src/a.py:120:8
119\t    try:
>> Issue: [B101:assert_used] Use of assert detected.
   Location: ./src/t/test_b.py:14:4
"""
MINE = 'checked 9 files\nmylint says: `src/a.py` is bad (see "src/t/test_b.py", line 3), b.py, a.py and nothere.py\n'


@pytest.mark.parametrize(
    ("tool", "output", "files"),
    [
        ("black", BLACK, PYTHON),
        ("isort", ISORT, PYTHON),
        ("prettier", PRETTIER, NODE),
        ("gofmt", GOFMT, GO),
        ("semgrep", SEMGREP, PYTHON),
        ("bandit", BANDIT, PYTHON),
        ("my own linter", MINE, PYTHON),
        ("ruff", "warning: `src/a.py` has no newline\n", PYTHON[:1]),
    ],
)
def test_known_files_count_wherever_the_output_names_them(tool: str, output: str, files: tuple[str, ...]) -> None:
    gap = a_gap(f"Quality check failed: {tool}", "quality", evidence=output)

    assert targets(a_goal(gap, allowed=[*LISTING], files=[*LISTING])) == [("modify", files)]


def test_a_name_without_its_folder_is_a_file_of_the_root() -> None:
    places = Places.of(("setup.py", "src/setup.py", "src/cart.py", "app/(shop)/page.tsx"), ())

    assert places.named_in("bad: setup.py, cart.py; app/(shop)/page.tsx:3") == ("setup.py", "app/(shop)/page.tsx")
    assert places.named_in("/w/shop/src/setup.py and \\shop\\src\\cart.py.") == ("src/setup.py", "src/cart.py")


@pytest.mark.parametrize("path", ["src/a.js", "src/a.mjs", "src/a.cjs", "src/A.java", "src/a.mts", "src/A.kt"])
def test_a_file_that_is_yet_to_be_made_is_known_by_its_suffix(path: str) -> None:
    goal = a_goal(a_gap(f"Create {path}"), allowed=["src/**"], files=["src/b.js"])

    assert targets(goal) == [("create", (path,))]
