"""What tools print: the shapes that the planner's classifier knows from the real ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.simulation.repository import LOADING, Cause, CoveringTest, Fault, Wrong

CLONE = "/work/clone"
WORDS = (
    "apple",
    "brick",
    "candle",
    "desert",
    "engine",
    "forest",
    "garden",
    "hammer",
    "island",
    "jungle",
    "kettle",
    "lantern",
)
CODES = (
    ("F401", "`os` imported but unused"),
    ("F841", "Local variable `found` is assigned to but never used"),
    ("E711", "Comparison to `None` should be `cond is None`"),
    ("E722", "Do not use bare `except`"),
)


def no_file(path: str) -> str:
    """Say that a file is not there."""
    return f"[Errno 2] No such file or directory: '{path}'\n"


def message(cause: Cause) -> str:
    """Say what a failing assertion compared; another cause says something else."""
    got, wanted = _words(cause.serial)
    return f"assert '{got}' == '{wanted}'"


def pytest_run(failing: Sequence[str], red: Mapping[str, Cause], count: int) -> str:
    """Print a run of pytest."""
    passed = f"{count - len(failing)} passed in 0.41s\n"
    if not failing:
        return f"{'.' * min(count, 72)}   [100%]\n{passed}"
    parts = ["=================================== FAILURES ==================================="]
    for name in failing:
        cause, (path, _, test) = red[name], name.partition("::")
        said = message(cause)
        inner = f"\n{path}:12: \n_ _ _ _ _ _ _ _ _ _ _ _\n" if cause.traced else ""
        place = f"{cause.file}:31: ValueError" if cause.traced else f"{path}:12: AssertionError"
        error = f"ValueError: {said[7:]}" if cause.traced else said
        parts.append(
            f"____________________ {test} ____________________\n\n    def {test}() -> None:\n>       check()\n"
        )
        parts.append(f"{inner}E       {error}\n\n{place}")
    parts.append("=========================== short test summary info ============================")
    for name in failing:
        said = message(red[name])
        parts.append(f"FAILED {name} - {'ValueError: ' + said[7:] if red[name].traced else said}")
    passing = f"{count - len(failing)} passed " if count > len(failing) else ""
    return "\n".join(parts) + f"\n{len(failing)} failed, {passing}in 0.52s\n".replace(", in", " in")


def pytest_collection(loading: Mapping[str, Cause]) -> str:
    """Print that test files could not be loaded."""
    parts = ["==================================== ERRORS ===================================="]
    for path, cause in loading.items():
        parts.append(f"___________________ ERROR collecting {path} ___________________")
        parts.append(f"{path}:3: in <module>\n    from {_module(cause.file)} import {WORDS[cause.serial % 12]}")
        if cause.wrong is Wrong.SYNTAX:
            parts.append(
                f'E     File "{CLONE}/{cause.file}", line 7\nE       def f(\nE   SyntaxError: was never closed'
            )
        else:
            parts.append(
                f"E   ImportError: cannot import name '{WORDS[cause.serial % 12]}' from '{_module(cause.file)}'"
            )
    parts.append("=========================== short test summary info ============================")
    parts += [f"ERROR {path}" for path in loading]
    count = len(loading)
    parts.append(f"!!!!!!!!!!!!!!!!!!! Interrupted: {count} error during collection !!!!!!!!!!!!!!!!!!!!")
    return "\n".join(parts) + f"\n{count} error in 0.33s\n"


def jest_run(failing: Sequence[CoveringTest], red: Mapping[str, Cause], tests: Sequence[CoveringTest]) -> str:
    """Print a run of jest."""
    parts: list[str] = []
    for path in dict.fromkeys(test.file for test in tests):
        bad = [test for test in failing if test.file == path]
        parts.append(f"{'FAIL' if bad else 'PASS'} {path}")
        if any(red[test.name].wrong in LOADING for test in bad):
            cause = next(red[test.name] for test in bad if red[test.name].wrong in LOADING)
            told = "SyntaxError: Unexpected token" if cause.wrong is Wrong.SYNTAX else ""
            told = told or f"Cannot find module './{WORDS[cause.serial % 12]}' from '{cause.file}'"
            parts.append(
                f"  ● Test suite failed to run\n\n    {told}\n\n      at Object.<anonymous> ({cause.file}:7:1)\n"
            )
            continue
        for test in bad:
            cause = red[test.name]
            place = cause.file if cause.traced else path
            got, wanted = _words(cause.serial)
            said = f"Expected: {wanted}\n    Received: {got}"
            parts.append(f"  ● {test.name}\n\n    expect(received).toBe(expected)\n\n    {said}\n")
            parts.append(f"      at Object.<anonymous> ({place}:12:17)\n")
    passed = len(tests) - len(failing)
    parts.append(f"Tests:       {f'{len(failing)} failed, ' if failing else ''}{passed} passed, {len(tests)} total")
    return "\n".join(parts) + "\n"


def go_test(failing: Sequence[CoveringTest], red: Mapping[str, Cause], tests: Sequence[CoveringTest]) -> str:
    """Print a run of go test."""
    parts: list[str] = []
    for folder in dict.fromkeys(test.file.rpartition("/")[0] for test in tests):
        bad = [test for test in failing if test.file.startswith(folder + "/")]
        broken = next((red[test.name] for test in bad if red[test.name].wrong in LOADING), None)
        if broken:
            parts.append(f"# acme/shop/{folder}\n{_go_line(broken.wrong, broken.file, broken.serial)}")
            parts.append(f"FAIL\tacme/shop/{folder} [build failed]")
            continue
        for test in bad:
            cause = red[test.name]
            place = (cause.file if cause.traced else test.file).rpartition("/")[2]
            got, wanted = _words(cause.serial)
            parts.append(f"--- FAIL: {test.name} (0.00s)\n    {place}:12: got {got}, want {wanted}")
        parts.append(f"FAIL\nFAIL\tacme/shop/{folder}\t0.004s" if bad else f"ok  \tacme/shop/{folder}\t0.003s")
    return "\n".join([*parts, *(["FAIL"] if failing else [])]) + "\n"


def _go_line(wrong: Wrong, path: str, serial: int) -> str:
    word = WORDS[serial % 12]
    said = {
        Wrong.SYNTAX: "syntax error: unexpected newline, expected )",
        Wrong.IMPORT: f"undefined: {word}",
    }.get(wrong, f"cannot use {word} (variable of type string) as int value in return statement")
    return f"{path}:{serial % 40 + 3}:9: {said}"


def go_build(found: Sequence[Fault]) -> str:
    """Print what go build could not compile."""
    return "".join(f"# acme/shop\n{_go_line(each.wrong, each.file, each.serial)}\n" for each in found)


def go_vet(found: Sequence[Fault]) -> str:
    """Print what go vet found."""
    said = "fmt.Printf format %d has arg x of wrong type string"
    return "".join(f"# acme/shop\n{each.file}:{each.serial % 40 + 3}:2: {said}\n" for each in found)


def gofmt(found: Sequence[Fault]) -> str:
    """Print what gofmt could not read."""
    return "".join(f"{each.file}:7:1: expected declaration, found '}}'\n" for each in found)


def py_compile(found: Sequence[Fault]) -> str:
    """Print what Python could not compile."""
    return "".join(
        f"  File \"{each.file}\", line 7\n    def f(\n         ^\nSyntaxError: '(' was never closed\n" for each in found
    )


def ruff(found: Sequence[Fault]) -> str:
    """Print what ruff found."""
    if not found:
        return "All checks passed!\n"
    parts = []
    for each in found:
        code, said = CODES[each.serial % len(CODES)]
        headline = "invalid-syntax: Expected ')', found newline" if each.wrong is Wrong.SYNTAX else f"{code} [*] {said}"
        line = each.serial % 40 + 1
        parts.append(f"{headline}\n --> {each.file}:{line}:8\n  |\n{line} | code\n  |\n")
    return "\n".join(parts) + f"\nFound {len(found)} error{'s' if len(found) > 1 else ''}.\n"


def mypy(found: Sequence[Fault]) -> str:
    """Print what mypy found."""
    if not found:
        return "Success: no issues found\n"
    kinds = {
        Wrong.SYNTAX: "'(' was never closed  [syntax]",
        Wrong.IMPORT: 'Cannot find implementation or library stub for module named "requets"  [import-not-found]',
    }
    usual = 'Incompatible return value type (got "str", expected "int")  [return-value]'
    lines = [f"{each.file}:{each.serial % 40 + 3}: error: {kinds.get(each.wrong, usual)}" for each in found]
    return "\n".join(lines) + f"\nFound {len(found)} errors in {len({each.file for each in found})} files\n"


def pyright(found: Sequence[Fault]) -> str:
    """Print what pyright found."""
    if not found:
        return "0 errors, 0 warnings, 0 informations\n"
    kinds = {
        Wrong.SYNTAX: '"(" was not closed',
        Wrong.IMPORT: 'Import "requets" could not be resolved (reportMissingImports)',
    }
    usual = 'Type "str" is not assignable to return type "int" (reportReturnType)'
    lines = []
    for each in found:
        path = f"{CLONE}/{each.file}"
        lines.append(f"{path}\n  {path}:{each.serial % 40 + 3}:12 - error: {kinds.get(each.wrong, usual)}")
    return "\n".join(lines) + f"\n{len(found)} errors, 0 warnings, 0 informations\n"


def eslint(found: Sequence[Fault]) -> str:
    """Print what eslint found."""
    parts = []
    for each in found:
        said = "Parsing error: ')' expected" if each.wrong is Wrong.SYNTAX else "'found' is never used  no-unused-vars"
        parts.append(f"\n{CLONE}/{each.file}\n  {each.serial % 40 + 3}:7  error  {said}\n")
    return "".join(parts) + (f"\n✖ {len(found)} problems ({len(found)} errors, 0 warnings)\n" if found else "")


def tsc(found: Sequence[Fault]) -> str:
    """Print what tsc found."""
    kinds = {
        Wrong.SYNTAX: "TS1005: ')' expected.",
        Wrong.IMPORT: "TS2307: Cannot find module './requets' or its corresponding type declarations.",
    }
    usual = "TS2322: Type 'string' is not assignable to type 'number'."
    return "".join(f"{each.file}({each.serial % 40 + 3},5): error {kinds.get(each.wrong, usual)}\n" for each in found)


def _words(serial: int) -> tuple[str, str]:
    """What came and what was wanted, which differ; another serial has other words, more often than not."""
    first = serial % len(WORDS)
    return WORDS[first], WORDS[(first + 1 + serial // len(WORDS) % (len(WORDS) - 1)) % len(WORDS)]


def _module(path: str) -> str:
    return path.removesuffix(".py").replace("/", ".")
