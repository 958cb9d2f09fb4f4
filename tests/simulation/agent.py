"""An honest agent: does what it knows of within the files that it may touch, and makes mistakes.

What it knows is in the text of the spec: the goal's words, what an earlier step answered, what a log or a failure
tells. An item of which it was told neither place nor name it finds by itself with the chance of that item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from schemas import codec
from tests.simulation.permission import is_wide, permitted
from tests.simulation.repository import Change, Fault, Item, Repository, Tree, Wrong

ALONE = 0.95  # the least chance to find what there is to do where only one source may be touched
CONTEXT = ("failing_tests", "previous_failure", "answers", "failure_log", "documents", "memory")
# What a wrong attempt does, and how often. "breaks" makes a test red, "omits" leaves an item out, "check" is something
# that a linter, a type checker or a compiler sees, "idle" changes nothing, "slow" runs into a time limit.
MISTAKES = {"breaks": 0.4, "omits": 0.25, "check": 0.2, "idle": 0.05, "slow": 0.1}
CHECKS = {Wrong.LINT: 0.4, Wrong.TYPE: 0.4, Wrong.IMPORT: 0.1, Wrong.SYNTAX: 0.1}

MISLED = 0.1  # of attempts that are told of places where there is nothing to do, and of none where there is

NO_CHANGE = Change()
MISSED = "the place was not told"

Spec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Errors:
    """What attempts that go wrong do, and what of it tools see, by how often."""

    kinds: Mapping[str, float] = field(default_factory=lambda: MISTAKES)
    checks: Mapping[Wrong, float] = field(default_factory=lambda: CHECKS)


USUAL = Errors()


@dataclass(frozen=True, slots=True)
class Patch:
    """What an agent did with a step that patches; one that ran out of time did nothing."""

    change: Change = NO_CHANGE
    out_of_time: bool = False
    nothing_to_do: bool = False  # as far as the agent can see, and it says so
    note: str = ""  # what was not as it should be, which nobody but the report knows of
    needs: tuple[str, ...] = ()  # files that it may not change, and has to


def told_by(spec: Spec) -> str:
    """Put together all that a spec tells its agent beside the files and commands."""
    asked, context = spec["controller_task_spec"], spec["context"]
    words = [spec["title"], spec["intent"], spec["success_criteria"], spec["guidance"], asked["hint"]]
    known = [codec.dumps(found).decode() for name in CONTEXT if (found := context.get(name))]
    given = [codec.dumps(found).decode() for name in ("input", "focus") if (found := spec.get(name))]
    return "\n".join([*filter(None, words), *known, *given])


class Agent:
    """One attempt's agent; `goes_wrong` is drawn once for it."""

    def __init__(self, repository: Repository, rng: Random, mistakes: float, errors: Errors = USUAL) -> None:
        self.repository, self.rng, self.errors = repository, rng, errors
        self.goes_wrong = rng.random() < mistakes
        self._serial = rng.randrange(1, 9000)

    def patch(self, spec: Spec, tree: Tree, asked: Collection[str] = ()) -> Patch:
        """Work on the files of a step, or ask for others that were not `asked` for before."""
        allowed, told = permitted(spec, self.repository, tree), told_by(spec)
        if spec["phase"] == "scaffold":
            return Patch(Change(allowed))
        if needs := self._needs(spec, tree, allowed, told, asked):
            return Patch(needs=needs)
        mends = self._visible(tree, allowed, told)
        undone = [item for item in self.repository.undone(tree) if item.file in allowed]
        known = [item for item in undone if self._knows(item, told, allowed)]
        if (spec.get("inserted_by") or "") and spec["step_id"].endswith("auto-fix"):
            known, mends = [], [each for each in tree.faults if each.wrong is Wrong.LINT and each.file in allowed]
        change = Change(_files(known, mends), frozenset(item.name for item in known), frozenset(mends))
        if stray := self._stray(spec, undone, mends):
            return Patch(Change((stray,)), note="misled by what it was told of earlier goals")
        if not self.goes_wrong:
            missed = MISSED if len(known) < len(undone) else ""
            return Patch(change, nothing_to_do=not undone and not mends, note=missed)
        return self._wrong(change, known, allowed, tree)

    def places(self, tree: Tree) -> list[Item]:
        """Find what is to be done by reading; an attempt that goes wrong finds nothing."""
        return [] if self.goes_wrong else list(self.repository.undone(tree))

    def _stray(self, spec: Spec, undone: Iterable[Item], mends: Iterable[Fault]) -> str | None:
        """Name the file of earlier goals that an attempt is misled to change, if it is: nothing is to be done there."""
        if not (known := spec["context"].get("memory")):
            return None
        drawn, told = self.rng.random(), codec.dumps(known).decode()
        right = {*(item.file for item in undone), *(fault.file for fault in mends)}
        named = [path for path in permitted(spec, self.repository, self.repository.base) if path in told]
        return named[0] if named and right.isdisjoint(named) and drawn < MISLED else None

    def _needs(
        self, spec: Spec, tree: Tree, allowed: Sequence[str], told: str, asked: Collection[str]
    ) -> tuple[str, ...]:
        """Name the files of what is to be done elsewhere, where it is known and the step may be given more files."""
        if self.goes_wrong or not is_wide(spec):
            return ()
        undone = self.repository.undone(tree)
        kinds = {item.work for item in undone if item.file in allowed}  # other kinds of work have steps of their own
        others = [item for item in undone if item.work in kinds and item.file not in {*allowed, *asked}]
        return _files([item for item in others if self._knows(item, told, allowed)], ())

    def _knows(self, item: Item, told: str, allowed: Sequence[str]) -> bool:
        drawn = self.rng.random()  # always, so that what one agent is told changes no later draw
        alone = sum(path in self.repository.sources for path in allowed) <= 1
        chance = max(item.found, ALONE) if alone else item.found
        return item.file in told or item.what in told or drawn < chance

    def _visible(self, tree: Tree, allowed: Iterable[str], told: str) -> list[Fault]:
        """Find the mistakes in these files that the spec tells of, by their file or by a test that they make red."""
        here = (fault for fault in tree.faults if fault.file in allowed)
        seen = (
            fault for fault in here if fault.file in told or any(test in told for test in self._red_by(fault, tree))
        )
        return sorted(seen, key=lambda fault: (fault.file, fault.wrong, fault.serial))

    def _red_by(self, fault: Fault, tree: Tree) -> Iterable[str]:
        return fault.tests or (name for name, cause in self.repository.red(tree).items() if cause.file == fault.file)

    def _wrong(self, change: Change, known: list[Item], allowed: Sequence[str], tree: Tree) -> Patch:
        (kind,) = self.rng.choices(list(self.errors.kinds), list(self.errors.kinds.values()))
        touched = change.touched or tuple(allowed[:1])
        path = self.rng.choice(touched)
        if kind == "idle":
            return Patch(note="mistake: idle")
        if kind == "check":
            return Patch(_with_fault(change, Fault(self._check(path), path, self._serial)), note="mistake: check")
        if kind in ("breaks", "slow"):
            return self._in_tests(change, path, tree, slow=kind == "slow")
        if not known:
            return Patch(change)
        left = self.rng.choice(known)
        rest = [item for item in known if item is not left]
        mends = sorted(change.mends, key=lambda fault: fault.file)
        return Patch(
            Change(_files(rest, mends), frozenset(item.name for item in rest), change.mends), note="mistake: omits"
        )

    def _in_tests(self, change: Change, path: str, tree: Tree, *, slow: bool) -> Patch:
        """Make tests fail, or not end; where no test covers the file, nobody is the worse for it."""
        after = tree.changed(change)
        covering = sorted(set(self.repository.covering(path, after)) - self.repository.red(after).keys())
        if slow and (not covering or self.rng.random() < 0.5):
            return Patch(out_of_time=True, note="mistake: slow")
        if not covering:
            return Patch(change)
        broken = frozenset(self.rng.sample(covering, min(len(covering), self.rng.randint(1, 2))))
        wrong = Wrong.HANG if slow else Wrong.TEST
        return Patch(
            _with_fault(change, Fault(wrong, path, self._serial, broken)),
            note=f"mistake: {'slow' if slow else 'breaks'}",
        )

    def _check(self, path: str) -> Wrong:
        if not path.endswith((".py", ".ts", ".go")):
            return Wrong.LINT  # which no tool sees
        (wrong,) = self.rng.choices(list(self.errors.checks), list(self.errors.checks.values()))
        return wrong


def _files(items: Iterable[Item], mends: Iterable[Fault]) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*(item.file for item in items), *(fault.file for fault in mends)]))


def _with_fault(change: Change, fault: Fault) -> Change:
    touched = tuple(dict.fromkeys((*change.touched, fault.file)))
    return Change(touched, change.does, change.mends, change.breaks | {fault})
