"""A simulated repository: its files and tests, the work that a goal asks for, and what is wrong in a tree of it.

A tree is a commit: which items of work are done in it, and which faults lie in it. What its tests, its linter and its
type checker would say follows from these two, so that every tool can be run on every tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property


class Work(StrEnum):
    """What kind of work an item is."""

    BUG = "bug"
    FEATURE = "feature"
    MOVE = "move"  # of a refactoring over several files
    TESTS = "tests"
    DOCUMENT = "document"
    LINT = "lint"
    TYPES = "types"
    UPGRADE = "upgrade"  # of a dependency, in a manifest
    ADAPT = "adapt"  # of code to an upgraded dependency


class Wrong(StrEnum):
    """What kind of fault lies in a file."""

    TEST = "test"
    LINT = "lint"
    TYPE = "type"
    IMPORT = "import"
    SYNTAX = "syntax"
    HANG = "hang"


LOADING = frozenset({Wrong.IMPORT, Wrong.SYNTAX})  # what keeps a file from being loaded at all


@dataclass(frozen=True, slots=True)
class Item:
    """One thing to do in one file.

    While it is undone `tests` are red. An item with a `lead` fits its file to another one: while only one of the two is
    done, what covers its file is red. `found` is how likely an agent finds it whom nobody told the place.
    """

    name: str
    file: str
    what: str
    work: Work
    tests: frozenset[str] = frozenset()
    lead: str = ""
    found: float = 1.0
    traced: bool = False  # whether a failing test's traceback goes through the file


@dataclass(frozen=True, slots=True)
class Fault:
    """A mistake in one file; `tests` are what it makes red, where it is no matter of loading the file."""

    wrong: Wrong
    file: str
    serial: int
    tests: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CoveringTest:
    """A test and what it covers; one with an `item` exists once that item of work is done."""

    name: str
    file: str
    covers: frozenset[str]
    flaky: float = 0.0  # how often it fails for no reason
    item: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """A commit."""

    done: frozenset[str] = frozenset()
    faults: frozenset[Fault] = frozenset()

    def changed(self, change: Change) -> Tree:
        """Return the commit that `change` makes of this one."""
        return Tree(self.done | change.does, (self.faults - change.mends) | change.breaks)


@dataclass(frozen=True, slots=True)
class Change:
    """What an attempt changed."""

    touched: tuple[str, ...] = ()
    does: frozenset[str] = frozenset()
    mends: frozenset[Fault] = frozenset()
    breaks: frozenset[Fault] = frozenset()


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a test is red: the file at fault, and a number by which one message differs from another."""

    wrong: Wrong
    file: str
    serial: int
    traced: bool


@dataclass(frozen=True)
class Repository:
    """The files of a repository, its tests, the items of one goal, and the tree that work begins at."""

    language: str
    sources: tuple[str, ...]
    tests: tuple[CoveringTest, ...]
    others: tuple[str, ...] = ()  # documents and manifests
    items: tuple[Item, ...] = ()
    base: Tree = Tree()
    _red: dict[Tree, dict[str, Cause]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def test_files(self) -> tuple[str, ...]:
        """The files of the tests that are there from the beginning."""
        return tuple(dict.fromkeys(test.file for test in self.tests if not test.item))

    @cached_property
    def files(self) -> tuple[str, ...]:
        """All files of the base."""
        return (*self.sources, *self.test_files, *self.others)

    @cached_property
    def by_name(self) -> dict[str, Item]:
        """The items by their names."""
        return {item.name: item for item in self.items}

    def with_work(self, items: Iterable[Item], tests: Iterable[CoveringTest] = ()) -> Repository:
        """Return this repository with work to do, and the tests that this work will add."""
        return replace(self, items=tuple(items), tests=(*self.tests, *tests), _red={})

    def with_base(self, faults: Iterable[Fault], flaky: Mapping[str, float]) -> Repository:
        """Return this repository with faults that were there before the goal, and tests that are flaky so often."""
        tests = tuple(replace(test, flaky=flaky.get(test.name, 0.0)) for test in self.tests)
        return replace(self, tests=tests, base=Tree(faults=frozenset(faults)), _red={})

    def existing(self, tree: Tree) -> frozenset[str]:
        """The files that are in `tree`."""
        return frozenset(self.files) | {self.by_name[name].file for name in tree.done}

    def undone(self, tree: Tree) -> tuple[Item, ...]:
        """The items that are not done in `tree`."""
        return tuple(item for item in self.items if item.name not in tree.done)

    def tests_in(self, tree: Tree) -> tuple[CoveringTest, ...]:
        """The tests that are in `tree`."""
        return tuple(test for test in self.tests if not test.item or test.item in tree.done)

    def covering(self, path: str, tree: Tree) -> tuple[str, ...]:
        """The tests of `tree` that a change of `path` could make red."""
        return tuple(test.name for test in self.tests_in(tree) if path in test.covers or path == test.file)

    def red(self, tree: Tree) -> dict[str, Cause]:
        """Say which tests of `tree` fail whenever they are run, and why."""
        if tree not in self._red:
            self._red[tree] = {
                test.name: cause for test in self.tests_in(tree) if (cause := next(self._causes(test, tree), None))
            }
        return self._red[tree]

    def misfits(self, tree: Tree) -> tuple[Item, ...]:
        """The items whose file does not fit to the file that leads them."""
        done = tree.done
        return tuple(item for item in self.items if item.lead and (item.name in done) != (item.lead in done))

    def outlawed(self, tree: Tree) -> frozenset[str]:
        """The tests that are red in `tree` and neither were before the goal nor have to be."""
        asked = frozenset(item.name for item in self.items)
        return frozenset(self.red(tree)) - frozenset(self.red(Tree(asked, self.base.faults)))

    def _causes(self, test: CoveringTest, tree: Tree) -> Iterator[Cause]:
        files = {test.file, *test.covers}
        faults = sorted((fault for fault in tree.faults if fault.file in files), key=_order)
        for fault in faults:
            if fault.wrong in LOADING or (fault.wrong is Wrong.TYPE and self.language == "go"):
                yield Cause(
                    Wrong.IMPORT if fault.wrong is Wrong.IMPORT else Wrong.SYNTAX, fault.file, fault.serial, True
                )
        for item in self.misfits(tree):
            if item.file in files:
                yield Cause(Wrong.IMPORT, item.file, _number(item.name), True)
        for fault in faults:
            if test.name in fault.tests:
                yield Cause(fault.wrong, fault.file, fault.serial, fault.serial % 2 == 0)
        for item in self.undone(tree):
            if test.name in item.tests:
                yield Cause(Wrong.TEST, item.file, _number(item.name), item.traced)


def _order(fault: Fault) -> tuple[str, str, int]:
    return fault.wrong, fault.file, fault.serial


def _number(name: str) -> int:
    return sum(ord(letter) * place for place, letter in enumerate(name, 1))
