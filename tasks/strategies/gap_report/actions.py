"""Selects the actions that close a gap, with their files.

A category is a function, a roadmap verb is a row of a table. An action modifies files that exist and creates others.
Without a listing of the repository, the verb decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from schemas.kinds.gap_report import MAX_TARGETS, ActionType, Gap, InboxItem, PlannedAction
from tasks.strategies.gap_report import evidence
from tasks.strategies.gap_report.analysis import category_of
from tasks.strategies.gap_report.constraints import NO_BOUNDS, Bounds, Protection, bounds_of
from tasks.strategies.gap_report.places import MANY, NO_NAMES, Documents, ModuleDocument, Places
from tasks.strategies.gap_report.suspects import with_suspects
from tasks.text.fields import fit
from tasks.toolchain.files import Role, files_of

MAX_DESCRIPTION = 1000
CREATE, MODIFY, DELETE = ActionType


@dataclass(frozen=True, slots=True)
class Inventory:
    """The files, documents and inbox of a goal; the actions of a gap are selected by these."""

    places: Places
    documents: Documents
    inbox: tuple[InboxItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """The actions for a gap, the constraints that bound them, and the module documents about their files.

    If an action has no target files, a step chooses the files.
    """

    actions: tuple[PlannedAction, ...]
    bounds: Bounds = NO_BOUNDS
    documents: tuple[ModuleDocument, ...] = ()
    is_checked_first: bool = False  # only a check can find its files


@dataclass(frozen=True, slots=True)
class Verb:
    """A row of the table of roadmap verbs: the pattern of the first words, how to find the files, and the action."""

    opening: re.Pattern[str]
    targets: Callable[[Gap, Inventory], tuple[str, ...]]
    action: ActionType  # if it is not known whether the files exist
    always: bool = False  # whether or not the files exist
    checks: bool = False  # a check finds them where nothing else does


def remedy_for(gap: Gap, inventory: Inventory) -> Remedy:
    """Return the actions for `gap`; an unknown category is handled like the roadmap."""
    plan = {"quality": _quality, "inbox": _inbox}.get(category_of(gap), _roadmap)
    return plan(gap, inventory)


def _quality(gap: Gap, inventory: Inventory) -> Remedy:
    tool = evidence.tool_of(gap.description)
    files = _reported_files(gap, inventory, tool, tool)
    action = PlannedAction(description=f"Fix {fit(tool, 80)} failures", target_files=files, action_type=MODIFY)
    return Remedy((action,), documents=inventory.documents.around(files))


def _inbox(gap: Gap, inventory: Inventory) -> Remedy:
    bounds = bounds_of(gap, inventory.inbox, inventory.places)
    targets, only = _targets(gap, inventory), Protection.of(bounds.only)
    # If only certain files may change, and none of them is a target, all of them are.
    within = tuple(path for path in targets if only.covers(path)) or bounds.only or targets
    targets = _expand_folders(Protection.of(bounds.excluded).without(within), inventory.places)
    if not targets and inventory.places.paths_in(gap.description):
        return Remedy((), bounds)  # its named files are protected, and it is about nothing else
    return Remedy(_split(gap, targets, CREATE, inventory), bounds, _documents(gap, targets, inventory))


def _roadmap(gap: Gap, inventory: Inventory) -> Remedy:
    verb = next(verb for verb in VERBS if verb.opening.match(gap.description))
    targets = verb.targets(gap, inventory)
    if verb.always and targets:
        actions: tuple[PlannedAction, ...] = (_action(gap, targets, verb.action),)
    else:
        actions = _split(gap, targets, verb.action, inventory)
    documents = _documents(gap, targets, inventory)
    return Remedy(actions, documents=documents, is_checked_first=verb.checks and not targets)


def _targets(gap: Gap, inventory: Inventory) -> tuple[str, ...]:
    """Return the files of a gap's description: paths in it, else files of modules, else files of a layer.

    Files that a module's documents name come first. A module without known files is returned as its folder.
    """
    text, places = gap.description, inventory.places
    if paths := _expand_folders(places.paths_in(text), places):
        return paths
    files: list[str] = []
    for folder in places.modules_in(text):
        known = places.within(folder)
        documents = inventory.documents.of_modules((folder,))
        documented = [path for each in documents for path in each.files_among(places)]
        if documented and len(known) > MANY:
            known = files_of(known, Role.TEST)
        files += (*documented, *known) or (folder,)
    return tuple(dict.fromkeys(files))[:MAX_TARGETS] or places.layers_in(text)


def _expand_folders(paths: Iterable[str], places: Places) -> tuple[str, ...]:
    """Return `paths` with every folder replaced by its known files; a folder without known files stays."""
    files = (file for path in paths for file in (places.within(path) if path.endswith("/") else ()) or (path,))
    return tuple(dict.fromkeys(files))[:MAX_TARGETS]


def _tests(gap: Gap, inventory: Inventory) -> tuple[str, ...]:
    """Return the tests of a gap's subject: named tests, tests of its modules, of its sources, or tests by name."""
    text, places = gap.description, inventory.places
    paths = places.paths_in(text)
    folders = [f"{folder}tests/" for folder in places.modules_in(text)]
    if tests := files_of(paths, Role.TEST) or _expand_folders(folders, places):
        return tests
    if sources := files_of(paths, Role.SOURCE):
        return places.tests_for(sources)
    subject = _SUBJECT.search(text)
    words = re.findall(r"[^\W\d_][\w-]{2,}", subject[1]) if subject else []
    tests_by_word = (places.tests_of(word) for word in words[:MANY] if word.casefold() not in NO_NAMES)
    return next(filter(None, tests_by_word), ())


def _failing(gap: Gap, inventory: Inventory) -> tuple[str, ...]:
    return _reported_files(gap, inventory, "", gap.description) or _targets(gap, inventory)


def _reported_files(gap: Gap, inventory: Inventory, tool: str, words: str) -> tuple[str, ...]:
    """Return the files in a gap's evidence; after failing tests also the sources that may have caused the failure.

    The failing tests are recognized by `words`, such as the name of a tool.
    """
    places = inventory.places
    files = places.locate_all(evidence.mentions(gap.evidence, tool, places.odd))
    if not places.knows_any(files):
        files = places.named_in(gap.evidence) or files
    if not files or not evidence.runs_tests(words):
        return files
    return with_suspects(files, inventory.documents.texts, gap.evidence, places, MAX_TARGETS)


def _split(
    gap: Gap, targets: tuple[str, ...], otherwise: ActionType, inventory: Inventory
) -> tuple[PlannedAction, ...]:
    """Return one action that creates the files which do not exist, and one that modifies the others.

    Without targets the action creates files of its choice. Without a listing, `otherwise` is the action for all files.
    """
    if not targets:
        return (_action(gap, (), CREATE),)
    if not inventory.places.existing:
        return (_action(gap, targets, otherwise),)
    new = tuple(path for path in targets if path not in inventory.places.existing)
    old = tuple(path for path in targets if path not in new)
    return tuple(_action(gap, files, kind) for files, kind in ((new, CREATE), (old, MODIFY)) if files)


def _documents(gap: Gap, targets: Iterable[str], inventory: Inventory) -> tuple[ModuleDocument, ...]:
    of_modules = inventory.documents.of_modules(inventory.places.modules_in(gap.description))
    return tuple(dict.fromkeys((*of_modules, *inventory.documents.around(targets))))


def _action(gap: Gap, targets: tuple[str, ...], kind: ActionType) -> PlannedAction:
    description = fit(gap.description, MAX_DESCRIPTION) or f"Close a {fit(gap.category, 80)} gap"
    return PlannedAction(description=description, target_files=targets[:MAX_TARGETS], action_type=kind)


def _opening(words: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{words})\b", re.IGNORECASE)


_SUBJECT = re.compile(r"\btests?\s+(?:for|of)\s+([^\n]{1,200})", re.IGNORECASE)

VERBS = (  # the first match counts; the last one always matches
    Verb(_opening(r"(?:(?:unit|integration|add|write|more)\s+){0,2}tests?\s+(?:for|of)"), _tests, CREATE),
    Verb(_opening(r"all\s+(?:\w+\s+){0,6}(?:pass|passes)"), _failing, MODIFY, always=True, checks=True),
    Verb(_opening(r"create|implement"), _targets, CREATE),
    Verb(_opening(r"remove|delete"), _targets, DELETE, always=True),
    Verb(re.compile(""), _targets, MODIFY),
)
