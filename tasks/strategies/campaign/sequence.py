"""DESIGN_SEQUENCE: designs the tasks of a campaign and the graph of their dependencies.

The formula in `formulas` gives the largest number of tasks. Each task needs a separate subject, so with fewer subjects
there are fewer tasks. A BUILD is about a source file or a section of the objective, a SPEC about a test file. A single
task is a BUILD. If there are two, one writes the tests. From three on, the last task is a VERIFY. The others form
branches of SPEC and BUILD tasks with separate files, which run at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from itertools import pairwise
from typing import TypeVar

from schemas.kinds.campaign import PlanTask, TaskType
from tasks.rules.strategy import Phase
from tasks.rules.validation import cycles
from tasks.strategies.campaign.state import Section
from tasks.strategies.drafting.order import slug
from tasks.toolchain.files import name_of

NO_TASK = "none"
MAX_NAMED = 10


def parents(depends: str | Sequence[str]) -> tuple[str, ...]:
    """Return the dependencies of a task from any form of `depends`."""
    names = (depends,) if isinstance(depends, str) else depends
    named = (name.strip() for name in names)
    return tuple(dict.fromkeys(name.lstrip("0").zfill(3) for name in named if name.lower() not in (NO_TASK, "")))


def depends_on(names: Sequence[str]) -> str | tuple[str, ...]:
    """Return the dependencies of a task in the form of plan.json."""
    return tuple(names) if len(names) > 1 else names[0] if names else NO_TASK


def graph(tasks: Sequence[PlanTask]) -> dict[str, tuple[str, ...]]:
    """Return the dependencies of each task by its number."""
    return {task.seq: parents(task.depends) for task in tasks}


def graph_faults(waits: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str, str]]:
    """Yield each fault of a task graph: the number of the task, an error code and a sentence."""
    valid = ", ".join(list(waits)[:MAX_NAMED])
    for name, others in waits.items():
        for other in others:
            if other == name:
                yield name, "self_dependency", "A task cannot wait for itself."
            elif other not in waits:
                yield name, "unknown_dependency", f"There is no task {other[:20]!r}; the tasks are {valid}."
    for members in cycles(waits):
        way = " -> ".join([*members[:MAX_NAMED], *(["..."] if len(members) > MAX_NAMED else []), members[0]])
        yield members[0], "cyclic_dependency", f"These tasks wait for each other: {way}."


def depth(waits: Mapping[str, Sequence[str]]) -> int:
    """Return the number of tasks on the longest path through a valid graph."""
    deep: dict[str, int] = {}
    for name in TopologicalSorter(waits).static_order():
        deep[name] = 1 + max((deep[other] for other in waits[name]), default=0)
    return max(deep.values(), default=0)


def sequence_phase(tasks: Sequence[PlanTask], unplaced: Sequence[str] = ()) -> Phase:
    """Return the phase that reports the number of tasks, the longest path, and the sections without a task."""
    more = f", no file is named by: {'; '.join(unplaced)}" if unplaced else ""
    return Phase("DESIGN_SEQUENCE", f"Step: ordering, Status: {len(tasks)} tasks, depth={depth(graph(tasks))}{more}")


def merge(
    tasks: Sequence[PlanTask], changed: Sequence[PlanTask], complete: Collection[str]
) -> tuple[PlanTask, ...] | str:
    """Return the tasks of a plan after changing some and adding others, or a sentence if the plan would be invalid.

    A draft may list a complete task unchanged, but not change it.
    """
    known = {task.seq: task for task in tasks if task.seq in complete}
    changed = [task for task in changed if task.seq not in known or not _is_same(task, known[task.seq])]
    new = {task.seq: task for task in changed}
    if len(new) < len(changed):
        return "A task comes twice."
    if done := sorted(set(new) & set(complete)):
        return f"The task {done[0]} is complete."
    old = {task.seq for task in tasks}
    merged = (*(new.get(task.seq, task) for task in tasks), *(task for seq, task in new.items() if seq not in old))
    return next((sentence for _, _, sentence in graph_faults(graph(merged))), merged)


def _is_same(task: PlanTask, other: PlanTask) -> bool:
    """Return whether two tasks have the same type, name and files."""
    return (task.type, task.slug, {*task.delta}, {*(task.creates or ())}) == (
        other.type,
        other.slug,
        {*other.delta},
        {*(other.creates or ())},
    )


T = TypeVar("T")
MAX_SLUG = 48
WHOLE = 4  # minimal letters of a name that may be anywhere in a word, as in AuthTest


@dataclass(frozen=True, slots=True)
class Shape:
    """The number of BUILD tasks in each branch, and whether branches begin with a SPEC and a VERIFY ends the plan."""

    builds: tuple[int, ...]
    specs: bool
    verify: bool


@dataclass(frozen=True, slots=True)
class Sketch:
    """A designed task that has no verification and no budget yet."""

    type: TaskType
    slug: str
    delta: tuple[str, ...] = ()
    after: tuple[int, ...] = ()  # places of those it waits for
    tests: tuple[str, ...] = ()  # those that show whether it is done
    sections: tuple[str, ...] = ()  # of the objective


def shape(count: int, sources: int, tests: int, sections: int) -> Shape:
    """Return how to distribute `count` tasks, given the numbers of source files, tests and sections."""
    verify = count >= 3 or (count == 2 and not tests)
    rest = count - verify
    specs = rest >= 2 and tests > 0
    branches = max(1, min(rest // 2, sources, tests)) if specs else 1
    builds = min(rest - branches * specs, max(sources, sections, branches))
    return Shape(tuple(map(len, split(range(builds), branches))), specs, verify)


def split(items: Sequence[T], parts: int) -> tuple[tuple[T, ...], ...]:
    """Split `items` into `parts` runs in order, nearly equal in length, longer runs first."""
    size, more = divmod(len(items), parts)
    ends = [size * number + min(number, more) for number in range(parts + 1)]
    return tuple(tuple(items[start:end]) for start, end in pairwise(ends))


def sequence(
    count: int,
    sources: Sequence[str],
    tests: Sequence[str],
    sections: Sequence[str],
    name: str,
    parts: Sequence[Section] = (),
) -> tuple[Sketch, ...]:
    """Design the tasks of the campaign `name`, each after its dependencies.

    A section in `parts` goes to the task that changes the files which the section names. Without `parts`, the headings
    in `sections` go to the tasks in their order.
    """
    made = shape(count, len(sources), len(tests), len(sections))
    sources = _by_section(sources, parts)
    files = split(sources, len(made.builds))
    if parts:
        branches = zip(files, made.builds, _share(parts, files), strict=True)
        headings = [deal(mine, _deltas(own, builds)) for own, builds, mine in branches]
    else:
        runs = iter(split(sections, sum(made.builds)))
        headings = [[next(runs)[:1] for _ in range(builds)] for builds in made.builds]
    sketches: list[Sketch] = []
    for own, shown, mine in zip(files, pair(files, tests), headings, strict=True):
        sketches += _branch(len(sketches), own, shown, mine, made.specs)
    if made.verify:
        awaited = {place for sketch in sketches for place in sketch.after}
        ends = tuple(place for place in range(len(sketches)) if place not in awaited)
        sketches.append(Sketch(TaskType.VERIFY, f"verify-{name}", after=ends))
    return tuple(sketches)


def with_documents(
    sketches: Sequence[Sketch], documents: tuple[str, ...], sections: tuple[str, ...]
) -> tuple[Sketch, ...]:
    """Insert a BUILD of the documents after the others, before the VERIFY."""
    verify = sketches[-1:] if sketches[-1].type is TaskType.VERIFY else ()
    code = (*sketches[: len(sketches) - len(verify)],)
    awaited = {place for sketch in code for place in sketch.after}
    ends = tuple(place for place in range(len(code)) if place not in awaited)
    written = Sketch(TaskType.BUILD, f"build-{_stem(documents[0])}", documents, ends, sections=sections)
    return (*code, written, *(replace(each, after=(len(code),)) for each in verify))


def _by_section(sources: Sequence[str], parts: Sequence[Section]) -> tuple[str, ...]:
    """Sort sources so that the files of a section are adjacent; the order of other files stays."""
    found = ((path, (rank, number)) for number, part in enumerate(parts) for rank, path in enumerate(part.files))
    best: dict[str, tuple[int, int]] = {}
    for path, place in found:
        best[path] = min(best.get(path, place), place)
    return tuple(sorted(sources, key=lambda path: best[path][1] if path in best else len(parts)))


def _share(parts: Sequence[Section], groups: Sequence[Sequence[str]]) -> list[list[Section]]:
    """Distribute sections over groups of files, by the file that a section names first, else by most of its files.

    A section that names no file goes to the group with the fewest sections.
    """
    shares: list[list[Section]] = [[] for _ in groups]
    for part in sorted(parts, key=lambda part: all({*part.files}.isdisjoint(group) for group in groups)):
        fits = [({*part.files[:1]} <= {*group}, len({*part.files} & {*group})) for group in groups]
        place = fits.index(max(fits)) if max(fits)[1] else min(range(len(groups)), key=lambda each: len(shares[each]))
        shares[place].append(part)
    order = {part.heading: number for number, part in enumerate(parts)}
    return [sorted(share, key=lambda part: order[part.heading]) for share in shares]


def _deltas(files: tuple[str, ...], builds: int) -> tuple[tuple[str, ...], ...]:
    """Return the files that each BUILD of a branch changes: separate files, or all files if there are too few."""
    return split(files, builds) if len(files) >= builds else (files,) * builds


def deal(parts: Sequence[Section], deltas: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the headings of the sections for each BUILD: by its files, or in order if BUILDs share files."""
    alike = len(set(deltas)) < len(deltas)
    shares = split(parts, len(deltas)) if alike else _share(parts, deltas)
    return [tuple(part.heading for part in share) for share in shares]


def _branch(
    at: int, files: tuple[str, ...], tests: tuple[str, ...], headings: Sequence[tuple[str, ...]], specs: bool
) -> Iterator[Sketch]:
    """Yield the tasks of a branch; its first task gets the position `at`.

    BUILD tasks with separate files run at the same time; those that share files wait for each other.
    """
    first: tuple[int, ...] = ()
    if specs:
        every = tuple(dict.fromkeys(heading for mine in headings for heading in mine))
        yield Sketch(TaskType.SPEC, f"spec-{_stem(files[0])}", tests, sections=every)
        first, at = (at,), at + 1
    aside = len(files) >= len(headings)
    for number, (delta, heading) in enumerate(zip(_deltas(files, len(headings)), headings, strict=True)):
        alone = len(headings) == 1
        shown = tests if alone else tuple(path for path in tests if any(is_akin(path, source) for source in delta))
        name = kebab(heading[0]) if heading else _stem(delta[0])
        build = Sketch(
            TaskType.BUILD, f"build-{name}", delta, first if aside or not number else (at + number - 1,), shown, heading
        )
        yield build if specs else replace(build, delta=tuple(dict.fromkeys((*delta, *shown))))


def pair(groups: Sequence[Sequence[str]], tests: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the test files for each group of source files.

    Tests that are named after a file of the group come first. Each group gets at least one test if there are enough.
    """
    left = list(tests)
    taken: list[list[str]] = [[] for _ in groups]
    for kin_only in (True, False):
        for mine, group in zip(taken, groups, strict=True):
            fitting = (test for test in left if not kin_only or any(is_akin(test, source) for source in group))
            if not mine and (test := next(fitting, None)):
                mine.append(test)
                left.remove(test)
    for test in left:
        kin = (mine for mine, group in zip(taken, groups, strict=True) if any(is_akin(test, path) for path in group))
        next(kin, taken[-1]).append(test)
    return tuple(map(tuple, taken))


def is_akin(test: str, source: str) -> bool:
    """Return whether a test file is named after a source file."""
    name, shown = _stem(source), _stem(test)
    return (len(name) >= WHOLE and name in shown) or set(name.split("-")) <= set(shown.split("-"))


def _stem(path: str) -> str:
    return kebab(name_of(path).partition(".")[0] or name_of(path)) or "part"


def kebab(text: str) -> str:
    """Return a kebab-case slug of `text`; empty if it has no letter or digit."""
    return slug(text, MAX_SLUG)
