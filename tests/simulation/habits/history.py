"""The goals that come in over some hundred days, in their order: new ones, and such as have been before.

A quarter comes again word by word: CI fails alike again, or somebody sends what halted once more. A seventh is nearly
one that has been: the same files, in other words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from random import Random
from typing import Any

from tests.corpus.goals import said, scene
from tests.simulation import work
from tests.simulation.goals import Mission, a_goal, printed
from tests.simulation.habits.world import Habits, World, names_of
from tests.simulation.layouts import COMMANDS, stem
from tests.simulation.repository import Item, Repository, Work

DAY_S = 86_400
DAYS = 100  # that five hundred goals take
AGAIN, NEARLY = 0.25, 0.15  # of goals, to one of the last RECENT_DAYS in the same repository
RECENT_DAYS = 30
SAME_CAUSE = 0.7  # how often the same test is red for the same file's sake
TRACED = 0.5  # of bugs whose traceback goes through the file at fault
GUESSED = 0.6  # as in `work`
DRAFT_TOKENS, DRAFT_S = (4000, 9000), (20, 60)  # that a model takes for a plan, with the files that it reads
POOR_DRAFT, USELESS_DRAFT = 0.15, 0.1  # of drafts that leave a file out, and that break the schema and are asked anew


@dataclass(frozen=True, slots=True)
class Sent:
    """A goal as it was sent: what it is about and in which words."""

    template: str
    sources: tuple[str, ...]
    words: int  # which of the template's wordings
    wish: str
    shown: str = ""  # of a bug: the test that is red first


@dataclass(frozen=True, slots=True)
class Incoming:
    """One goal of the run: when it comes, whose it is, and whether it has been before."""

    number: int
    second: int
    habits: Habits
    relation: str  # new, again, nearly
    mission: Mission


Made = tuple[dict[str, Any], Repository]
Recipe = Callable[[Habits, Sent, Random], Made]


def make_history(world: World, seed: int, count: int) -> list[Incoming]:
    """Make the goals of a run; the same for the same seed, whatever becomes of them."""
    sent: dict[str, list[tuple[int, Sent]]] = {habits.name: [] for habits in world.repositories}
    found = []
    for number in range(count):
        rng = Random(f"{seed}:{number}:goal")
        second = int((number + rng.random()) * DAYS * DAY_S / count)
        (habits,) = rng.choices(world.repositories, world.weights)
        known = sent[habits.name]
        relation, about = _about(habits, [each for at, each in known if second - at < RECENT_DAYS * DAY_S], rng)
        known.append((second, about))
        found.append(Incoming(number, second, habits, relation, _mission(habits, about, rng)))
    return found


def _about(habits: Habits, recent: Sequence[Sent], rng: Random) -> tuple[str, Sent]:
    drawn = rng.random()
    if recent and drawn < AGAIN:
        return "again", rng.choice(recent)
    if recent and drawn < AGAIN + NEARLY:
        was = rng.choice(recent)
        wish = rng.choice(work.WISHES)
        return "nearly", Sent(was.template, was.sources, was.words + 1, wish, was.shown)
    (template,) = rng.choices(list(RECIPES), [share for share, _, _, _ in RECIPES.values()])
    least, most = RECIPES[template][1]
    sources: dict[str, None] = {}
    count = rng.randint(least, most)
    while len(sources) < count:
        (source,) = rng.choices(habits.repository.sources, habits.weights)
        sources[source] = None
    shown = habits.shown[next(iter(sources))][0]
    return "new", Sent(template, tuple(sources), rng.randrange(3), rng.choice(work.WISHES), shown)


def _mission(habits: Habits, about: Sent, rng: Random) -> Mission:
    _, _, is_drafted, recipe = RECIPES[about.template]
    goal, repository = recipe(habits, about, rng)
    kind = goal.get("kind", "task")
    drafts = _drafts(repository, rng) if is_drafted and habits.is_drafted else {}
    return Mission(kind, about.template, scene(goal, None, **drafts), repository)


def _goal(habits: Habits, repository: Repository, sentence: str, files: Sequence[str], **fields: Any) -> dict[str, Any]:
    # The same work is there on the same commit: main has not moved on where a goal comes again word by word.
    base = sha1(repr((habits.name, repository.items)).encode(), usedforsecurity=False).hexdigest()
    context = {"repo": habits.name, "base_sha": base, "manifests": dict(habits.manifests), **fields.pop("context", {})}
    return a_goal(repository, sentence, files, context=context, **fields)


def _worded(about: Sent, sentences: Sequence[str], **words: str) -> str:
    return sentences[about.words % len(sentences)].format(**words)


def _bug(habits: Habits, about: Sent, rng: Random) -> Repository:
    """One wrong source; the same test may be red for another one's sake the next time."""
    repository = habits.repository
    source = about.sources[0]
    test = next(each for each in repository.tests if each.name == about.shown)
    others = sorted(test.covers - {source})
    if others and rng.random() >= SAME_CAUSE:
        source = rng.choice(others)
    shown = frozenset({about.shown, *habits.shown[about.sources[0]]})
    covering = frozenset(each.name for each in repository.tests if source in each.covers)
    traced = rng.random() < TRACED
    what = f"wrong result of {stem(source)}"
    return repository.with_work([Item("bug", source, what, Work.BUG, shown & covering, found=GUESSED, traced=traced)])


def _bug_from_junit(habits: Habits, about: Sent, rng: Random) -> Made:
    repository = _bug(habits, about, rng)
    failing = [_submitted(repository, name) for name in sorted(repository.items[0].tests)]
    log = printed(repository, COMMANDS[repository.language])
    sentences = ("Fix failing test {test}", "CI is red: fix {test}", "Repair {test}, which fails on main")
    files = _around(habits, repository, rng, 2)
    context = {"failing_tests": failing, "failure_log": log}
    return _goal(habits, repository, _worded(about, sentences, test=failing[0]), files, context=context), repository


def _bug_in_words(habits: Habits, about: Sent, rng: Random) -> Made:
    repository = _bug(habits, about, rng)
    name = _submitted(repository, min(repository.items[0].tests))
    sentences = ("Fix the failing test {test}", "{test} fails, fix that", "Fix what makes {test} fail")
    return _goal(
        habits, repository, _worded(about, sentences, test=name), _around(habits, repository, rng, 3)
    ), repository


def _bug_in_many_files(habits: Habits, about: Sent, rng: Random) -> Made:
    repository = _bug(habits, about, rng)
    name = _submitted(repository, min(repository.items[0].tests))
    context = {"failing_tests": [name], "failure_log": printed(repository, COMMANDS[repository.language])}
    sentences = ("Fix the crash that {test} shows", "{test} crashes: fix it", "Find and fix the crash behind {test}")
    files = _around(habits, repository, rng, 9)
    return _goal(habits, repository, _worded(about, sentences, test=name), files, context=context), repository


def _feature(habits: Habits, about: Sent, rng: Random) -> Made:
    repository = work.add_a_feature(habits.repository, Random(0), 0, 1, about.sources, about.wish)
    sentences = ("Add a {wish} to {names}", "{names} should have a {wish}", "Implement the {wish} of {names}")
    sentence = _worded(about, sentences, wish=about.wish, names=names_of(about.sources))
    return _goal(habits, repository, sentence, _files(repository), limits={"max_steps": 40}), repository


def _tests(habits: Habits, about: Sent, _: Random) -> Made:
    repository = work.write_tests(habits.repository, Random(0), 0, about.sources)
    sentences = ("Write tests for {names}", "Add unit tests for {names}", "Write more tests for {names}")
    sentence = _worded(about, sentences, names=names_of(about.sources))
    return _goal(habits, repository, sentence, _files(repository)), repository


def _rename(habits: Habits, about: Sent, _: Random) -> Made:
    first, *users = about.sources
    items = [Item("define", first, about.wish, Work.MOVE)]
    items += [Item(f"use-{at}", path, about.wish, Work.MOVE, lead="define") for at, path in enumerate(users)]
    repository = habits.repository.with_work(items)
    sentences = ("Rename the {wish} of {name} wherever it is used", "Refactor {name}: another name for its {wish}")
    sentence = _worded(about, sentences, wish=about.wish, name=stem(first))
    return _goal(habits, repository, sentence, _files(repository)), repository


def _lint(habits: Habits, about: Sent, _: Random) -> Made:
    items = [Item(f"finding-{at}", path, path, Work.LINT) for at, path in enumerate(about.sources)]
    repository = habits.repository.with_work(items)
    tool = {"python": "ruff check .", "typescript": "npx eslint .", "go": "go vet ./..."}[repository.language]
    sentences = ("Clean up what the linter reports", "Clean up the findings of the linter", "Tidy what lint reports")
    context = {"failure_log": printed(repository, tool)}
    return _goal(habits, repository, _worded(about, sentences), _files(repository), context=context), repository


def _batch(habits: Habits, about: Sent, _: Random) -> Made:
    """Supplied steps that do not wait for each other, one a file, as a person plans a migration."""
    items = [Item(f"move-{at}", path, about.wish, Work.FEATURE) for at, path in enumerate(about.sources)]
    repository = habits.repository.with_work(items)
    steps = [
        {"step_id": f"do-{stem(path).replace('_', '-')}", "title": f"Change {stem(path)}",
         "intent": f"Take the {about.wish} out of {stem(path)}", "allowed_files": [path],
         "verify": COMMANDS[repository.language]}
        for path in about.sources
    ]  # fmt: skip
    sentence = f"Take the {about.wish} out of {names_of(about.sources)}"
    return _goal(habits, repository, sentence, _files(repository), steps=steps), repository


def _gap_of_tests(habits: Habits, about: Sent, rng: Random) -> Made:
    repository = _bug(habits, about, rng)
    evidence = printed(repository, COMMANDS[repository.language])[:16_000]
    gap = {"category": "quality", "description": "Quality check failed: tests", "priority": "high",
           "roadmap_version": "0.1", "evidence": evidence}  # fmt: skip
    report = {"gaps": [gap], "most_critical": gap, "timestamp": "2026-11-18T11:00:00Z"}
    given = {"project": {"files": list(repository.files)}, "gap_report": report}
    files = _around(habits, repository, rng, 3)
    fields: dict[str, Any] = {"kind": "gap_report", "gap_report": given}
    return _goal(habits, repository, "Close the most critical gap", files, **fields), repository


def _around(habits: Habits, repository: Repository, rng: Random, more: int) -> list[str]:
    """Allow the file at fault, the tests that show it, and others."""
    (bug,) = repository.items
    tests = [test.file for test in repository.tests if test.name in bug.tests]
    covered = [path for test in repository.tests if test.name in bug.tests for path in sorted(test.covers)]
    return work.with_others(repository, rng, [bug.file, *covered, *tests], more)


def _files(repository: Repository) -> list[str]:
    return list(dict.fromkeys(item.file for item in repository.items))


def _submitted(repository: Repository, name: str) -> str:
    """Name a failing test as `planner submit` takes it from a report."""
    if repository.language != "typescript":
        return name
    return next(test.file for test in repository.tests if test.name == name)


def _drafts(repository: Repository, rng: Random) -> dict[str, Any]:
    """Have a model draft the plan: one step a source with its test, then the documents."""
    groups: dict[str, list[Item]] = {}
    for item in repository.items:
        groups.setdefault("documents" if item.work is Work.DOCUMENT else stem(item.file), []).append(item)
    names = list(groups)
    if len(names) > 1 and rng.random() < POOR_DRAFT:
        names.remove(rng.choice(names))
    steps = [
        {"id": f"do-{name.replace('_', '-')}", "title": f"Change {name}", "intent": f"Do what is asked in {name}",
         "actions": [f"{item.work.value}: {item.what}" for item in groups[name]],
         "files": [item.file for item in groups[name]]}
        for name in names
    ]  # fmt: skip
    useless = [_said("I would begin with a look at the code.", rng)] if rng.random() < USELESS_DRAFT else []
    drafted = [*useless, _said({"summary": "As asked", "steps": steps}, rng), _said("I cannot say more.", rng)]
    return {"drafter": "http", "drafted": drafted}


def _said(output: Any, rng: Random) -> dict[str, Any]:
    return {**said(output, rng.randint(*DRAFT_TOKENS)), "duration_ms": 1000 * rng.randint(*DRAFT_S)}


# Template: how many of a hundred new goals, of how many sources, whether a model may draft it, and how it is made.
RECIPES: dict[str, tuple[int, tuple[int, int], bool, Recipe]] = {
    "bug from JUnit": (24, (1, 1), False, _bug_from_junit),
    "bug, test in sentence": (8, (1, 1), False, _bug_in_words),
    "bug among many files": (8, (1, 1), False, _bug_in_many_files),
    "failing tests as a gap": (8, (1, 1), False, _gap_of_tests),
    "feature": (20, (1, 2), True, _feature),
    "feature, many files": (6, (4, 6), True, _feature),
    "write tests": (6, (1, 3), True, _tests),
    "rename": (6, (3, 5), False, _rename),
    "lint findings": (8, (3, 9), False, _lint),
    "supplied, independent": (6, (5, 8), False, _batch),
}
