"""Fills in the missing parts of a goal's context from the checkout and the CI job of its sender.

Fields of the goal have priority. Nothing is filled in from a checkout that cannot be the goal's repository.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from schemas import codec
from schemas.base import GoalKind
from schemas.goal import MAX_GOAL_BYTES, GoalContext
from schemas.kinds.gap_report import GapGoal
from tasks.base.errors import UnknownCommand
from tasks.strategies.gap_report.analysis import category_of, wish
from tasks.strategies.gap_report.checks import CHECKS, command_of, title_of
from tasks.strategies.gap_report.places import Places
from tasks.text.paths import clean, is_glob
from tasks.text.patterns import expand_globs, matcher, meant_by_globs, pattern_fault
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.files import configures_verification, instructs_agents
from tasks.toolchain.languages import language_of
from tasks.toolchain.named_tests import resolve_tests
from worker.host.remote_names import is_of
from worker.host.remote_names import name_of as repository_name
from worker.sources.checkout import FAILURES, Checkout
from worker.sources.ci import Job
from worker.sources.definitions import read_definitions
from worker.sources.goal import sentence_of
from worker.sources.goal_files import (
    RESERVED,
    TESTS,
    fit_documents,
    fit_manifests,
    fixed_instructions,
    folders_above,
    listed,
    manifests_above,
    mentioned_files,
    module_documents,
    texts_of_goal,
)

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # as make looks for them
MOST_NAMED = 3  # of a note
NO_NAME = (
    "The URL of this checkout's remote names no repository, so context.repo is empty. Controllers that serve several "
    "repositories take no step of it, and no other plan is compared with it. Name it: --repo OWNER/NAME."
)
TARGET = re.compile(r"^(test|check)\s*:(?!=)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Filling:
    """A goal with the filled-in fields, these fields alone, and notes for the sender."""

    body: dict[str, Any]
    filled: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def summary(self) -> dict[str, Any]:
        """The filled-in fields for the sender: of files only their number, of other contents only their paths."""
        said = dict(self.filled)
        if "files" in said:
            said["files"] = len(said["files"])
        listed = ("manifests", "definitions", "documents", "instructions")
        said |= {name: list(said[name]) for name in listed if name in said}
        return said


def fill(body: Mapping[str, Any], folder: Path, job: Job | None, guessed: Collection[str] = ()) -> Filling:
    """Return a goal with its repository, commit, files, manifests, language and test command filled in.

    They come from the checkout at `folder`, else from the CI job. Outside of CI, a goal without files that may change
    is not filled in. `guessed` names the fields that only a test report suggests: facts of the checkout replace them.
    """
    given, allowed = dict(body.get("context") or {}), body.get("allowed_files")
    context = {name: value for name, value in given.items() if name not in guessed}
    patterns = [each for each in allowed if isinstance(each, str)] if isinstance(allowed, list) else []
    if not patterns and not job:
        return Filling(dict(body))
    notes: list[str] = []
    checkout = Checkout.at(folder)
    try:
        found = _of_checkout(checkout, context, patterns, job, body, notes) if checkout else _of_job(job, context)
    except FAILURES as error:
        notes.append(f"What git knows of this folder was not filled in: {error}.")
        found = _of_job(job, context)
    if _base(body, context) or body.get("from"):
        found.pop("base_sha", None)
    for name in ("files_complete", "instructions") if body.get("from") else ():  # the tip of its branch may have others
        found.pop(name, None)
    tests = {TESTS: found.pop(TESTS)} if TESTS in found else {}
    filled = {name: value for name, value in found.items() if value and name not in context}
    made = given | tests | filled
    notes += _checked_by(body, made) if checkout else ()
    sentence = {"goal": sentence_of(tests[TESTS])} if "goal" in guessed and tests.get(TESTS) else {}
    return Filling({**body, **sentence, "context": made} if made != given else dict(body), filled, tuple(notes))


def _checked_by(body: Mapping[str, Any], context: Mapping[str, Any]) -> Iterator[str]:
    """Yield a note with the tools that controllers need, if no manifest configures the checks of a gap report."""
    given = body.get(GoalKind.GAP_REPORT)
    if body.get("kind") != GoalKind.GAP_REPORT or not isinstance(given, dict) or given.get("checks") is not None:
        return
    if context.get("language") == "python" and not context.get("manifests"):
        tools = " and ".join(title_of(command_of(CATALOGUE, name) or (name,)) for name in CHECKS)
        yield (
            f"No manifest here configures a linter or a type checker: controllers need {tools}, unless the goal's "
            "`gap_report.checks` names other checks."
        )


def _base(body: Mapping[str, Any], context: Mapping[str, Any]) -> Any:
    """Return the base commit that a goal names, in its context or as the `base` of an evolution."""
    given = body.get("evolution")
    base = given.get("base") if isinstance(given, dict) else None
    return context.get("base_sha") or (base.get("commit_hash") if isinstance(base, dict) else None)


def _of_job(job: Job | None, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return repository and commit of a CI job; empty without a job or if the goal names another repository."""
    if job is None or not _is_named(context.get("repo"), [job.repo] if job.repo else []):
        return {}
    return {"repo": job.repo, "base_sha": job.head or job.commit}


def _of_checkout(
    checkout: Checkout,
    context: Mapping[str, Any],
    patterns: Sequence[str],
    job: Job | None,
    body: Mapping[str, Any],
    notes: list[str],
) -> dict[str, Any]:
    named = [name for url in checkout.remotes.values() if (name := repository_name(url))]
    jobs = [job.repo] if job and job.repo and not named else []  # a remote on this machine has no name
    if not _is_named(context.get("repo"), [*checkout.remotes.values(), *jobs]):
        notes.append(f"Nothing is filled in: this is a checkout of {', '.join(named) or 'another repository'}.")
        return {}
    base = _base(body, context)
    commit = checkout.commit(str(base)) if base else checkout.head
    files = checkout.files(commit or checkout.head)
    new = created(body, files)
    meant = _meant(patterns, list(files), new)
    if patterns and not is_about(files, meant, new):
        notes.append(_why_not(files, meant, checkout.prefix, new))
        return {}
    found: dict[str, Any] = {"repo": _repository(checkout, named, job)}
    if checkout.remotes and not (found["repo"] or context.get("repo")):
        notes.append(NO_NAME)
    if commit is None:
        notes.append(f"No files are filled in: this clone does not have the commit {base}.")
        return found
    found |= _resolved_tests(context, files, notes)
    if not base:
        found["base_sha"] = (job.head if job and job.repo == found["repo"] else None) or commit
        notes += _not_begun_with(checkout, commit, job)
    expanded = tuple(dict.fromkeys(path for paths in meant.values() for path in paths))
    notes += _left_out(patterns, files, frozenset(expanded))
    found |= _of_files(checkout, files, expanded, context)
    room = (MAX_GOAL_BYTES - len(codec.dumps(body)) - RESERVED) // 2
    paths = manifests_above(files, (*expanded, *patterns), {**context, **found})
    texts = checkout.texts({path: files[path] for path in paths})
    found["manifests"] = fit_manifests(texts, room)
    found["files"] = listed(body, {**context, **found}, files, patterns, expanded, room)
    found["instructions"] = _instructions(checkout, str(found.get("base_sha") or commit), patterns, expanded)
    known = {**context, **found}
    likely = (path for path in mentioned_files(body, known, files) if path in frozenset(expanded))
    left = MAX_GOAL_BYTES - len(codec.dumps({**body, "context": known})) - RESERVED
    if body.get("kind") == GoalKind.GAP_REPORT:
        may_change = (*mentioned_files(body, known, files), *new, *expanded)
        documents = checkout.texts({path: files[path] for path in module_documents(files, may_change)})
        found["documents"] = fit_documents(documents, left // 2)
        left -= len(codec.dumps(found["documents"]))
    found["definitions"] = read_definitions(checkout, files, (*likely, *expanded), texts_of_goal(body, known), left)
    given = context.get("files", found["files"])
    found["files_complete"] = isinstance(given, list) and files.keys() <= set(map(str, given))
    return found


def _instructions(
    checkout: Checkout, base: str, patterns: Sequence[str], expanded: Sequence[str]
) -> dict[str, str] | None:
    """Return the digests of the repository's instructions for agents at its base commit; None if unreadable."""
    commit = checkout.commit(base)
    files = checkout.files(commit) if commit else {}
    return fixed_instructions(
        patterns, expanded, files, lambda paths: checkout.texts({each: files[each] for each in paths})
    )


def _resolved_tests(context: Mapping[str, Any], files: Iterable[str], notes: list[str]) -> dict[str, Any]:
    """Return the failing tests with their files in the checkout; tests without a file there are left out, with a note.

    Returns an empty mapping if no name changes.
    """
    given = context.get(TESTS)
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        return {}
    resolved = resolve_tests(given, files)
    if resolved.unknown:
        unknown = _some(resolved.unknown)
        notes.append(f"No command names these failing tests, whose files this checkout does not have: {unknown}.")
    return {} if resolved.names == tuple(given) else {TESTS: list(resolved.names)}


def _is_named(said: Any, names: Sequence[str]) -> bool:
    """Return whether the goal's repository may be the one with these `names`; True if either has no name."""
    return not said or not names or is_of(str(said), names) or any(is_of(name, [str(said)]) for name in names)


def _repository(checkout: Checkout, named: Sequence[str], job: Job | None) -> str | None:
    """Return the CI job's repository unless the checkout's remotes name another, else the one of a remote."""
    if job and job.repo and (not named or is_of(job.repo, checkout.remotes.values())):
        return job.repo
    url = checkout.remotes.get("origin") or (
        next(iter(checkout.remotes.values())) if len(checkout.remotes) == 1 else ""
    )
    return repository_name(url)


def _not_begun_with(checkout: Checkout, commit: str, job: Job | None) -> Iterator[str]:
    """Yield notes about uncommitted changes, and about a base commit that controllers may not find."""
    if checkout.is_changed():
        yield f"Changes here that are not committed are no part of the plan: it begins at {commit[:12]}."
    if not job and not checkout.is_published(commit):
        yield f"No branch of a remote has {commit[:12]}, as far as this clone knows: push it for controllers elsewhere."


def created(body: Mapping[str, Any], files: Iterable[str]) -> tuple[str, ...]:
    """Return the paths in the roadmap and wishes of a gap report that the project's `files` do not have."""
    try:
        given = GapGoal.model_validate(body.get("gap_report") or {})
    except ValidationError:  # the reader of the goal reports it
        return ()
    if not (given.gap_report or given.inbox):
        return ()
    listed = frozenset(files)
    report = given.gap_report.gaps if given.gap_report else ()
    told = [gap.description for gap in report if category_of(gap) != "quality"]
    places = Places.of(listed, ())
    named = (path for text in (*told, *map(wish, given.inbox)) for path in places.paths_in(text))
    return tuple(path for path in dict.fromkeys(named) if path not in listed)


def _meant(patterns: Sequence[str], files: Sequence[str], new: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return for each pattern the `files` and `new` paths that it matches, and the pattern itself if it is a path."""
    return {each: (*expand_globs([each], files).files, *meant_by_globs([each], new)) for each in patterns}


def is_about(files: Iterable[str], meant: Mapping[str, Sequence[str]], new: Sequence[str] = ()) -> bool:
    """Return whether a project with these files can be the target of patterns; `meant` has the matches of each pattern.

    At least one pattern must match a file or one of the `new` ones, which the goal creates. Other new files must be in
    existing folders. A glob may name a new folder inside of another.
    """
    there = frozenset((*files, *new))
    folders = {path.rpartition("/")[0] for path in files}
    above = {above for folder in folders for above in (folder, *folders_above(folder))}
    known = [any(path in there for path in paths) for paths in meant.values()]
    fitting = (
        any(path in there or path.rpartition("/")[0] in folders for path in paths)
        or (is_glob(pattern) and _is_new_in(pattern, above))
        for pattern, paths in meant.items()
    )
    return any(known) and all(fitting)


def _is_new_in(glob: str, folders: Container[str]) -> bool:
    """Return whether the fixed part of a glob is in one of `folders` other than the root."""
    plain = "/".join(takewhile(lambda part: not is_glob(part), clean(glob).split("/")))
    above = plain.rpartition("/")[0]
    return bool(above) and above in folders


def _why_not(files: Collection[str], meant: Mapping[str, Sequence[str]], prefix: str, new: Sequence[str]) -> str:
    """Return a sentence with the reason why a checkout is not the target, and the patterns that match no file in it."""
    if prefix and is_about(files, _meant([prefix + each for each in meant], list(files), ())):
        return f"Nothing is filled in: paths begin at the root of the repository, such as {prefix}{next(iter(meant))}."
    strange = [each for each, paths in meant.items() if not is_about(files, {each: paths}, new)]
    return f"Nothing is filled in: this checkout has no file like {_some(strange)}."


def _left_out(patterns: Sequence[str], files: Iterable[str], expanded: Container[str]) -> Iterator[str]:
    """Yield notes about files that globs match but do not allow; `expanded` are the files that they allow."""
    is_meant = matcher(tuple(each for each in patterns if is_glob(each) and pattern_fault(each) is None))
    literal = frozenset(clean(each) for each in patterns if not is_glob(each))
    meant = [path for path in files if is_meant(path) and path not in literal]
    forbidden = [path for path in meant if path not in expanded]
    if configuring := [path for path in meant if configures_verification(path) and path not in forbidden]:
        yield f"Globs leave out files that configure checks: {_some(configuring)}. Name such a file to allow it."
    if instructing := [path for path in meant if instructs_agents(path) and path not in forbidden]:
        yield f"Globs leave out files that instruct agents: {_some(instructing)}. Name such a file to allow it."
    if forbidden:
        yield f"Globs leave out files that no step may touch: {_some(forbidden)}."


def _some(named: Sequence[str]) -> str:
    return ", ".join(named[:MOST_NAMED]) + (f" and {len(named) - MOST_NAMED} others" if len(named) > MOST_NAMED else "")


def _of_files(
    checkout: Checkout, files: Mapping[str, str], expanded: Sequence[str], context: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the language that the planner would find from all files; without one, the test command of a Makefile."""
    if context.get("language"):
        return {}
    tested: Sequence[str] = ()
    if command := context.get("test_command"):
        with suppress(UnknownCommand):
            tested = CATALOGUE.contracts[CATALOGUE.match(str(command)).tool].languages
    known = GoalContext.model_construct(files=tuple(files), manifests={}, language=None)
    if language := language_of(known, expanded, tested):
        return {"language": language.name}
    makefile = next((name for name in MAKEFILES if name in files), "")
    rules = checkout.texts({makefile: files[makefile]}).get(makefile, "") if makefile and not command else ""
    targets = set(TARGET.findall(rules))
    return {"test_command": f"make {'test' if 'test' in targets else 'check'}"} if targets else {}
