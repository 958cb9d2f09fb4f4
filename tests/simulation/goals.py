"""The goals of the simulation: for each kind and template a sentence, its context, and the work that it is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from schemas.goal import GoalContext
from tests.corpus.goals import scene
from tests.corpus.play import Scene
from tests.simulation import supplied, work
from tests.simulation.layouts import COMMANDS, make_repository, stem
from tests.simulation.repository import Repository, Tree, Work
from tests.simulation.tools import run

BASE_SHA = "9f1c2d4"


@dataclass(frozen=True, slots=True)
class Mission:
    """A goal with what is around its planning, and the repository that it is about."""

    kind: str
    template: str
    scene: Scene
    repository: Repository


Made = tuple[dict[str, Any], Repository]  # a goal, and its repository
Recipe = Callable[[Random], Made]


def a_goal(repository: Repository, sentence: str, files: Sequence[str], **fields: Any) -> dict[str, Any]:
    """Make a goal about `files` of a repository; `context` among the fields is added to what CI would tell."""
    context = {
        "repo": "acme/shop",
        "base_sha": BASE_SHA,
        "language": repository.language,
        "test_command": COMMANDS[repository.language],
        "files": list(repository.files),
        **fields.pop("context", {}),
    }
    return {"goal": sentence, "tenant": "acme", "allowed_files": list(files), "context": context, **fields}


def printed(repository: Repository, command: str) -> str:
    """Tell what a command prints on the tree that the goal is about."""
    return run(command.split(), repository, Tree(), Random(0)).text


def _language(rng: Random) -> str:
    return rng.choices(["python", "typescript", "go"], [8, 1, 1])[0]


def _all_files(repository: Repository) -> list[str]:
    return list(dict.fromkeys(item.file for item in repository.items))


def _from_junit(rng: Random) -> Made:
    repository = work.mend_a_bug(make_repository(rng, _language(rng)), rng)
    (bug,) = repository.items
    failing = [_submitted(repository, name) for name in sorted(bug.tests)]
    log = printed(repository, COMMANDS[repository.language])
    files = work.with_others(repository, rng, [bug.file, *_tests_of(repository, bug.tests)], rng.randint(0, 2))
    context = {"failing_tests": failing, "failure_log": log}
    return a_goal(repository, f"Fix failing test {failing[0]}", files, context=context), repository


def _from_sentence(rng: Random) -> Made:
    repository = work.mend_a_bug(make_repository(rng), rng)
    (bug,) = repository.items
    files = work.with_others(repository, rng, [bug.file, *_tests_of(repository, bug.tests)], rng.randint(0, 2))
    return a_goal(repository, f"Fix the failing test {min(bug.tests)}", files), repository


def _in_many_files(rng: Random) -> Made:
    repository = work.mend_a_bug(make_repository(rng), rng)
    (bug,) = repository.items
    files = work.with_others(repository, rng, [bug.file], rng.randint(7, 10))
    context = {"failing_tests": sorted(bug.tests), "failure_log": printed(repository, "pytest -q")}
    return a_goal(repository, f"Fix the crash that {min(bug.tests)} shows", files, context=context), repository


def _globs(repository: Repository) -> list[str]:
    """Name the folders of a repository as docs/ci.md does."""
    if repository.language == "go":
        return ["**/*.go"]
    folders = (path.partition("/")[0] for path in (*repository.sources, *repository.test_files))
    return [f"{folder}/**" for folder in dict.fromkeys(folders)]


def _by_globs(made: Made) -> Made:
    """Allow the folders of the repository in place of single files; its listing is whole."""
    goal, repository = made
    whole = {"files_complete": True} if "files_complete" in GoalContext.model_fields else {}
    context = {**goal["context"], **whole}
    return {**goal, "allowed_files": _globs(repository), "context": context}, repository


def _feature(rng: Random, least: int, most: int, documents: int = 1) -> Made:
    repository = make_repository(rng, _language(rng))
    repository = work.add_a_feature(repository, rng, rng.randint(least, most), documents)
    sentence = f"Add a {repository.items[0].what} to {', '.join(map(stem, _sources(repository)))}"
    files = work.with_others(repository, rng, _all_files(repository), rng.randint(0, 1))
    return a_goal(repository, sentence, files, limits={"max_steps": 40}), repository


def _rename(rng: Random, sources: int, tests: int) -> Made:
    repository = work.rename_a_symbol(make_repository(rng, _language(rng)), rng, sources, tests)
    sentence = f"Rename {repository.items[0].what} to {repository.items[0].what}_of_item wherever it is used"
    return a_goal(repository, sentence, _all_files(repository)), repository


def _write_tests(rng: Random) -> Made:
    repository = work.write_tests(make_repository(rng), rng, rng.randint(1, 3))
    sentence = f"Write tests for {', '.join(item.what for item in repository.items)}"
    return a_goal(repository, sentence, _all_files(repository)), repository


def _document(rng: Random) -> Made:
    repository = work.document(make_repository(rng), rng, rng.randint(1, 3))
    return a_goal(repository, f"Document the {repository.items[0].what}", _all_files(repository)), repository


def _upgrade(rng: Random) -> Made:
    repository = work.upgrade(make_repository(rng), rng, rng.randint(0, 2))
    files = work.with_others(repository, rng, _all_files(repository), 1)
    return a_goal(repository, "Upgrade requests to version 3", files), repository


def _build(rng: Random) -> Made:
    repository = work.clean(make_repository(rng, "typescript"), rng, rng.randint(1, 3), Work.TYPES)
    log = printed(repository, "npx tsc --noEmit")
    files = work.with_others(repository, rng, _all_files(repository), 1)
    return a_goal(repository, "Fix the build", files, context={"failure_log": log}), repository


def _generic(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, 1, documents=0)
    wish, source = repository.items[0].what, repository.items[0].file
    return a_goal(repository, f"A {wish} in {stem(source)}, with a test", _all_files(repository)), repository


def _observe(rng: Random) -> Made:
    repository = make_repository(rng)
    sentence = f"Why is {stem(repository.sources[0])} so slow?"
    return a_goal(repository, sentence, repository.sources[:3]), repository


def _lint(rng: Random) -> Made:
    repository = work.clean(make_repository(rng), rng, rng.randint(3, 12), Work.LINT)
    log = printed(repository, "ruff check .")
    sentence = "Clean up what ruff reports"
    return a_goal(repository, sentence, _all_files(repository), context={"failure_log": log}), repository


def _chain(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(3, 4), documents=0)
    steps = supplied.chain(repository)
    return a_goal(repository, "Do as planned", _all_files(repository), steps=steps), repository


def _diamond(rng: Random) -> Made:
    repository = work.rename_a_symbol(make_repository(rng), rng, 7, 2)
    steps = supplied.diamond(repository)
    return a_goal(repository, "Do as planned", _all_files(repository), steps=steps), repository


def _gaps(repository: Repository, files: Sequence[str], *found: dict[str, Any], **fields: Any) -> dict[str, Any]:
    report = {"gaps": list(found), "most_critical": next(iter(found), None), "timestamp": "2026-11-18T11:00:00Z"}
    given = {"project": {"files": list(repository.files)}, **({"gap_report": report} if found else {}), **fields}
    return a_goal(repository, "Close the most critical gap", files, kind="gap_report", gap_report=given)


def _gap(category: str, description: str, evidence: str = "") -> dict[str, Any]:
    found = {"category": category, "description": description, "priority": "high", "roadmap_version": "0.1"}
    return {**found, "evidence": evidence[:16_000]}


def _gap_of_tests(rng: Random) -> Made:
    repository = work.mend_a_bug(make_repository(rng), rng)
    (bug,) = repository.items
    files = work.with_others(repository, rng, [bug.file, *_tests_of(repository, bug.tests)], rng.randint(0, 3))
    gap = _gap("quality", "Quality check failed: pytest", printed(repository, "pytest -q"))
    return _gaps(repository, files, gap), repository


def _gap_of_ruff(rng: Random) -> Made:
    repository = work.clean(make_repository(rng), rng, rng.randint(2, 12), Work.LINT)
    gap = _gap("quality", "Quality check failed: ruff", printed(repository, "ruff check ."))
    return _gaps(repository, repository.files, gap), repository


def _gap_of_roadmap(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(1, 2), documents=0)
    files = _all_files(repository)
    gap = _gap("roadmap", f"Implement the {repository.items[0].what} in {' and '.join(files)}")
    return _gaps(repository, work.with_others(repository, rng, files, 2), gap), repository


def _gap_of_inbox(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(1, 2), documents=1)
    files = _all_files(repository)
    wish = repository.items[0].what
    item = {"filename": "wish.md", "title": f"A {wish}", "what": f"A {wish} in {', '.join(files)}", "why": "Asked for"}
    return _gaps(repository, files, inbox=[{**item, "priority": "medium", "constraints": []}]), repository


def _campaign(rng: Random, *, given: bool) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(1, 3), documents=0)
    wish = repository.items[0].what
    said: dict[str, Any] = {"objective": f"Add a {wish}", "exploration": supplied.exploration(repository)}
    if given:
        said["tasks"] = supplied.campaign_tasks(repository)
    files = _all_files(repository)
    return a_goal(repository, f"Add a {wish}", files, kind="campaign", campaign=said), repository


def _explored(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(1, 2), documents=0)
    wish = repository.items[0].what
    files = work.with_others(repository, rng, _all_files(repository), 2)
    return a_goal(
        repository, f"Add a {wish}", files, kind="campaign", campaign={"objective": f"Add a {wish}"}
    ), repository


def _reviewed(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(1, 3), documents=1)
    sentence = f"Add a {repository.items[0].what}"
    said = {"workflow": "both"}
    files = _all_files(repository)
    return a_goal(repository, sentence, files, kind="reviewed_plan", reviewed_plan=said), repository


def _evolution(rng: Random) -> Made:
    repository = work.add_a_feature(make_repository(rng), rng, rng.randint(1, 3), documents=0)
    said = {"base": {"commit_hash": BASE_SHA}, "validation_mode": rng.choice(["strict", "lenient"])}
    files = work.with_others(repository, rng, _all_files(repository), 1)
    return a_goal(repository, f"Add a {repository.items[0].what}", files, kind="evolution", evolution=said), repository


def _sources(repository: Repository) -> list[str]:
    return work.of_work(repository, Work.FEATURE)


def _tests_of(repository: Repository, names: frozenset[str]) -> list[str]:
    return list(dict.fromkeys(test.file for test in repository.tests if test.name in names))


def _submitted(repository: Repository, name: str) -> str:
    """Name a failing test as `planner submit` takes it from a report."""
    if repository.language != "typescript":
        return name
    return next(test.file for test in repository.tests if test.name == name)


# Kind, template, how many of 107 goals, who drafts, and how the goal is made.
RECIPES: tuple[tuple[str, str, int, str | None, Recipe], ...] = (
    ("task", "bug from JUnit", 8, None, _from_junit),
    ("task", "bug, test in sentence", 4, None, _from_sentence),
    ("task", "bug among many files", 4, None, _in_many_files),
    ("task", "feature", 7, None, lambda rng: _feature(rng, 1, 2)),
    ("task", "feature, many files", 4, None, lambda rng: _feature(rng, 4, 6)),
    ("task", "bug from JUnit, globs", 4, None, lambda rng: _by_globs(_from_junit(rng))),
    ("task", "feature, globs", 3, None, lambda rng: _by_globs(_feature(rng, 1, 2, documents=0))),
    ("task", "rename in 4 files", 3, None, lambda rng: _rename(rng, 3, 1)),
    ("task", "rename in 9 files", 4, None, lambda rng: _rename(rng, 6, 3)),
    ("task", "write tests", 4, None, _write_tests),
    ("task", "documentation", 3, None, _document),
    ("task", "dependency upgrade", 4, None, _upgrade),
    ("task", "build", 3, None, _build),
    ("task", "generic", 3, None, _generic),
    ("task", "observation", 1, None, _observe),
    ("task", "lint findings", 3, None, _lint),
    ("task", "supplied chain", 5, None, _chain),
    ("task", "supplied diamond", 5, None, _diamond),
    ("gap_report", "failing tests", 5, None, _gap_of_tests),
    ("gap_report", "ruff findings", 5, None, _gap_of_ruff),
    ("gap_report", "roadmap item", 4, None, _gap_of_roadmap),
    ("gap_report", "inbox wish", 3, None, _gap_of_inbox),
    ("campaign", "tasks given", 4, None, lambda rng: _campaign(rng, given=True)),
    ("campaign", "exploration given", 3, None, lambda rng: _campaign(rng, given=False)),
    ("campaign", "explored, drafted", 3, "queue", _explored),
    ("reviewed_plan", "plan and execution", 4, None, _reviewed),
    ("evolution", "drafted by the fleet", 4, "queue", _evolution),
)


def _in_turn() -> list[int]:
    """Spread the recipes evenly over 107 goals, so that few goals too have some of each kind."""
    places = [((turn + 0.5) / each[2], at) for at, each in enumerate(RECIPES) for turn in range(each[2])]
    return [at for _, at in sorted(places)]


TURNS = _in_turn()


def make_mission(number: int, seed: int) -> Mission:
    """Make the goal of this number; the same for the same seed, whatever the fleet is like."""
    kind, template, _, drafter, recipe = RECIPES[TURNS[number % len(TURNS)]]
    goal, repository = recipe(Random(f"{seed}:{number}:goal"))
    return Mission(kind, template, scene(goal, None, **_drafted_by(drafter)), repository)


def _drafted_by(drafter: str | None) -> dict[str, Any]:
    return {"drafter": drafter} if drafter else {}
