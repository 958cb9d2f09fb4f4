"""The tools of a verification, run on a simulated tree: exit codes and text as the real ones have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from tasks.toolchain.collecting import COLLECTING
from tests.simulation import printing
from tests.simulation.repository import LOADING, Cause, CoveringTest, Fault, Repository, Tree, Work, Wrong

_MODULES = ("python -m", "python3 -m", "uv run", "poetry run", "npx --no-install", "npx", "pnpm exec", "yarn")


@dataclass(frozen=True, slots=True)
class Printed:
    """How a tool ended. `failing` are all that failed, if it was a test runner that came to its end."""

    exit_code: int
    text: str = ""
    timed_out: bool = False
    failing: tuple[str, ...] = ()
    complete: bool = False


@dataclass(frozen=True)
class Call:
    """A tool's words, and the tree that it is run on."""

    words: tuple[str, ...]
    repository: Repository
    tree: Tree
    rng: Random
    paths: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", tuple(word for word in self.words if not word.startswith("-")))

    def missing(self) -> str | None:
        """Name the first path that is not there."""
        there = self.repository.existing(self.tree)
        return next(
            (path for path in map(_file, self.paths) if path not in there and not _is_folder(path, there)), None
        )

    def chosen(self, suffixes: tuple[str, ...]) -> tuple[str, ...]:
        """The files that the tool looks at: those named, else all."""
        there = sorted(path for path in self.repository.existing(self.tree) if path.endswith(suffixes))
        if not self.paths:
            return tuple(there)
        return tuple(path for path in there if any(_within(path, named) for named in self.paths))

    def faults(self, files: Iterable[str], *kinds: Wrong) -> list[Fault]:
        """The faults of these kinds in these files."""
        wanted = frozenset(files)
        found = (fault for fault in self.tree.faults if fault.wrong in kinds and fault.file in wanted)
        return sorted(found, key=lambda fault: (fault.file, fault.serial))

    def undone(self, files: Iterable[str], work: Work) -> list[Fault]:
        """The items of this kind in these files, as the findings that they are."""
        wanted, wrong = frozenset(files), Wrong.LINT if work is Work.LINT else Wrong.TYPE
        items = (item for item in self.repository.undone(self.tree) if item.work is work and item.file in wanted)
        return [Fault(wrong, item.file, sum(map(ord, item.name)) * 7 + at) for item in items for at in range(3)]

    def misfits(self, files: Iterable[str]) -> list[Fault]:
        """The files that do not fit to what leads them, as a type checker sees it."""
        wanted = frozenset(files)
        return [Fault(Wrong.TYPE, each.file, 3) for each in self.repository.misfits(self.tree) if each.file in wanted]


def run(argv: Sequence[str], repository: Repository, tree: Tree, rng: Random) -> Printed:
    """Run a command of the catalogue; LookupError where the simulation does not know the tool."""
    line = " ".join(argv)
    for module in _MODULES:
        if line.startswith(module + " "):
            argv = argv[len(module.split()) :]
            break
    name, rest = next(
        ((each, argv[len(each.split()) :]) for each in TOOLS if list(argv[: len(each.split())]) == each.split()),
        ("", ()),
    )
    if not name:
        raise LookupError(f"the simulation has no {line!r}")
    return TOOLS[name](Call(tuple(rest), repository, tree, rng))


def _pytest(call: Call) -> Printed:
    if missing := call.missing():
        return Printed(4, f"ERROR: file or directory not found: {missing}\n\nno tests ran in 0.01s\n")
    tests = call.repository.tests_in(call.tree)
    if call.paths:
        tests = tuple(test for test in tests if any(_is_of(test, named) for named in call.paths))
        if lacking := next((n for n in call.paths if "::" in n and not any(_is_of(t, n) for t in tests)), None):
            return Printed(4, f"ERROR: not found: {printing.CLONE}/{lacking}\n\nno tests ran in 0.01s\n")
    if not tests:
        return Printed(5, "\nno tests ran in 0.01s\n")
    red = _without_code(call) if COLLECTING in call.words else _red(call, tests)
    if loading := {test.file: red[test.name] for test in tests if test.name in red and red[test.name].wrong in LOADING}:
        return Printed(2, printing.pytest_collection(loading), failing=tuple(loading))
    if hanging := next((test for test in tests if test.name in red and red[test.name].wrong is Wrong.HANG), None):
        return Printed(-9, f"{hanging.name} ", timed_out=True)
    stops = any(re.fullmatch("-[vqsl]*x[vqsl]*|--exitfirst", word) for word in call.words)
    failing = tuple(test.name for test in tests if test.name in red)[: 1 if stops else None]
    text = printing.pytest_run(failing, red, len(tests))
    if COLLECTING in call.words:
        return Printed(0, "\n".join(test.name for test in tests))
    return Printed(1 if failing else 0, text, failing=failing, complete=not (failing and stops))


def _without_code(call: Call) -> Mapping[str, Cause]:
    """The tests that are not loaded: because of a fault, or since they import code that is still to come."""
    red = {name: cause for name, cause in call.repository.red(call.tree).items() if cause.wrong in LOADING}
    features = (item for item in call.repository.undone(call.tree) if item.work is Work.FEATURE)
    return {**{name: Cause(Wrong.IMPORT, item.file, 7, False) for item in features for name in item.tests}, **red}


def _red(call: Call, tests: Iterable[CoveringTest]) -> Mapping[str, Cause]:
    """What fails in this run: the red tests, and flaky ones by chance."""
    red = call.repository.red(call.tree)
    shaky = [test for test in tests if test.flaky and test.name not in red and call.rng.random() < test.flaky]
    return {**red, **{test.name: Cause(Wrong.TEST, test.file, 9900, False) for test in shaky}}


def _is_of(test: CoveringTest, named: str) -> bool:
    return test.name == named or _within(test.file, named) or test.name.startswith(named + "::")


def _jest(call: Call) -> Printed:
    tests = [t for t in call.repository.tests_in(call.tree) if not call.paths or any(_is_of(t, n) for n in call.paths)]
    if not tests:
        return Printed(1, "No tests found, exiting with code 1\n")
    red = _red(call, tests)
    if any(red[test.name].wrong is Wrong.HANG for test in tests if test.name in red):
        return Printed(-9, "RUNS  ...\n", timed_out=True)
    failing = [test for test in tests if test.name in red]
    text = printing.jest_run(failing, red, tests)
    names = tuple(test.name for test in failing)
    return Printed(1 if failing else 0, text, failing=names, complete=True)


def _go_test(call: Call) -> Printed:
    tests = list(call.repository.tests_in(call.tree))
    if "-run" in call.words:
        wanted = re.compile(call.words[call.words.index("-run") + 1])
        tests = [test for test in tests if wanted.search(test.name)]
    folders = [each.removeprefix("./").removesuffix("...").rstrip("/") for each in call.paths if each.startswith(".")]
    tests = [test for test in tests if not any(folders) or any(test.file.startswith(each + "/") for each in folders)]
    red = _red(call, tests)
    if any(red[test.name].wrong is Wrong.HANG for test in tests if test.name in red):
        return Printed(-9, "=== RUN\n", timed_out=True)
    failing = [test for test in tests if test.name in red]
    text = printing.go_test(failing, red, tests)
    names = tuple(test.name for test in failing)
    whole = not any(red[test.name].wrong in LOADING for test in failing)
    return Printed(1 if failing else 0, text, failing=names, complete=whole)


def _lint_with(show: Callable[[Sequence[Fault]], str], *suffixes: str) -> Callable[[Call], Printed]:
    def tool(call: Call) -> Printed:
        files = call.chosen(suffixes)
        found = call.faults(files, Wrong.LINT, Wrong.SYNTAX) + call.undone(files, Work.LINT)
        return Printed(1 if found else 0, show(found))

    return tool


def _types_with(show: Callable[[Sequence[Fault]], str], code: int, *suffixes: str) -> Callable[[Call], Printed]:
    def tool(call: Call) -> Printed:
        files = call.chosen(suffixes)
        found = call.faults(files, Wrong.TYPE, Wrong.SYNTAX, Wrong.IMPORT)
        found += call.undone(files, Work.TYPES) + call.misfits(files)
        return Printed(code if found else 0, show(found))

    return tool


def _loads_with(show: Callable[[Sequence[Fault]], str], code: int, *suffixes: str) -> Callable[[Call], Printed]:
    def tool(call: Call) -> Printed:
        if missing := call.missing():
            return Printed(code, printing.no_file(missing))
        found = call.faults(call.chosen(suffixes), Wrong.SYNTAX)
        return Printed(code if found else 0, show(found) if found else "")

    return tool


def _go_build(call: Call) -> Printed:
    files = tuple(path for path in call.repository.existing(call.tree) if path.endswith(".go"))
    found = call.faults(files, Wrong.TYPE, Wrong.SYNTAX, Wrong.IMPORT) + call.misfits(files)
    return Printed(1 if found else 0, printing.go_build(found))


def _go_vet(call: Call) -> Printed:
    built = _go_build(call)
    found = call.faults([fault.file for fault in call.tree.faults], Wrong.LINT)
    found += call.undone([item.file for item in call.repository.items], Work.LINT)
    return built if built.exit_code else Printed(1 if found else 0, printing.go_vet(found))


def _fine(text: str) -> Callable[[Call], Printed]:
    return lambda _: Printed(0, text)


def _file(path: str) -> str:
    return path.partition("::")[0]


def _is_folder(path: str, there: Iterable[str]) -> bool:
    return path == "." or any(each.startswith(path.rstrip("/") + "/") for each in there)


def _within(path: str, named: str) -> bool:
    return named == "." or path == named or path.startswith(named.rstrip("/") + "/")


_PY, _TS = (".py",), (".ts",)
TOOLS: Mapping[str, Callable[[Call], Printed]] = {
    "pytest": _pytest,
    "py_compile": _loads_with(printing.py_compile, 1, *_PY),
    "ruff check": _lint_with(printing.ruff, *_PY),
    "mypy": _types_with(printing.mypy, 1, *_PY),
    "pyright": _types_with(printing.pyright, 1, *_PY),
    "pip check": _fine("No broken requirements found.\n"),
    "jest": _jest,
    "npm test": _jest,
    "eslint": _lint_with(printing.eslint, *_TS),
    "tsc": lambda call: _types_with(printing.tsc, 2, *_TS)(Call((), call.repository, call.tree, call.rng)),
    "go test": _go_test,
    "go build": _go_build,
    "go vet": _go_vet,
    "gofmt": _loads_with(printing.gofmt, 2, ".go"),
}
