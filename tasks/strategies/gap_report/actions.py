"""The actions that close a gap: what is done to which files.

A category is a function, a roadmap verb is a row. Files that exist are modified, others are created; where nothing
says which files there are, the verb decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.kinds.gap_report import MAX_TARGETS, ActionType, Gap, InboxItem, PlannedAction
from tasks.strategies.gap_report import evidence
from tasks.strategies.gap_report.analysis import category_of
from tasks.strategies.gap_report.constraints import NO_BOUNDS, Bounds, Protection, bounds_of
from tasks.strategies.gap_report.places import MANY, NO_NAMES, Documents, ModuleDocument, Places
from tasks.text.fields import fit
from tasks.toolchain.files import Role, files_of, role_of

MAX_DESCRIPTION = 1000
CREATE, MODIFY, DELETE = ActionType


@dataclass(frozen=True, slots=True)
class Inventory:
    """What a goal tells of its project, read to find the actions of a gap."""

    places: Places
    documents: Documents
    inbox: tuple[InboxItem, ...] = ()


@dataclass(frozen=True, slots=True)
class Remedy:
    """What is to be done about a gap, and within which bounds.

    An action without targets leaves the files to whoever does it.
    """

    actions: tuple[PlannedAction, ...]
    bounds: Bounds = NO_BOUNDS
    documents: tuple[ModuleDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Verb:
    """How a roadmap item begins, how its files are found, and its action."""

    opening: re.Pattern[str]
    targets: Callable[[Gap, Inventory], tuple[str, ...]]
    action: ActionType  # where nothing tells whether the files exist
    always: bool = False  # whether or not the files exist


def remedy_for(gap: Gap, inventory: Inventory) -> Remedy:
    """Make the actions of `gap`; an unknown category is planned as the roadmap is."""
    return _CATEGORIES.get(category_of(gap), _roadmap)(gap, inventory)


def _quality(gap: Gap, inventory: Inventory) -> Remedy:
    tool = evidence.tool_of(gap.description)
    named = inventory.places.locate_all(evidence.mentions(gap.evidence, tool, inventory.places.odd))
    files = _blamed(named, inventory.places) if evidence.runs_tests(tool) else named
    action = PlannedAction(description=f"Fix {fit(tool, 80)} failures", target_files=files, action_type=MODIFY)
    return Remedy((action,), documents=inventory.documents.around(files))


def _inbox(gap: Gap, inventory: Inventory) -> Remedy:
    bounds = bounds_of(gap, inventory.inbox, inventory.places)
    targets = _opened(_bounded(_targets(gap, inventory), bounds), inventory.places)
    if not targets and inventory.places.paths_in(gap.description):
        return Remedy((), bounds)  # what it names may not be touched, and it is about nothing else
    return Remedy(_split(gap, targets, CREATE, inventory), bounds, _documents(gap, targets, inventory))


def _roadmap(gap: Gap, inventory: Inventory) -> Remedy:
    verb = next(verb for verb in VERBS if verb.opening.match(gap.description))
    targets = verb.targets(gap, inventory)
    if verb.always and targets:
        actions: tuple[PlannedAction, ...] = (_action(gap, targets, verb.action),)
    else:
        actions = _split(gap, targets, verb.action, inventory)
    return Remedy(actions, documents=_documents(gap, targets, inventory))


def _targets(gap: Gap, inventory: Inventory) -> tuple[str, ...]:
    """Infer files from a description: paths that it names, else modules, else keywords of layers."""
    text, places = gap.description, inventory.places
    modules = (path for folder in places.modules_in(text) for path in _of_module(folder, inventory))
    return (
        _opened(places.paths_in(text), places) or tuple(dict.fromkeys(modules))[:MAX_TARGETS] or places.layers_in(text)
    )


def _opened(paths: Iterable[str], places: Places) -> tuple[str, ...]:
    """Put the known files of folders in their place; a folder that has none stays."""
    files = (file for path in paths for file in (places.within(path) if path.endswith("/") else ()) or (path,))
    return tuple(dict.fromkeys(files))[:MAX_TARGETS]


def _of_module(folder: str, inventory: Inventory) -> tuple[str, ...]:
    """List the files of a module, or its folder; those in its documents first."""
    known = inventory.places.within(folder)
    named = tuple(
        path for each in inventory.documents.of_modules((folder,)) for path in each.files_among(inventory.places)
    )
    if named and len(known) > MANY:
        known = tuple(path for path in known if role_of(path) is Role.TEST)
    return tuple(dict.fromkeys((*named, *known))) or (folder,)


def _tests(gap: Gap, inventory: Inventory) -> tuple[str, ...]:
    """Find the tests of a thing: its module's folder, else tests named like it."""
    places, explicit = inventory.places, inventory.places.paths_in(gap.description)
    folders = [f"{folder}tests/" for folder in places.modules_in(gap.description)]
    sources = files_of(explicit, Role.SOURCE)
    return (
        files_of(explicit, Role.TEST)
        or _opened(folders, places)
        or (places.tests_for(sources) if sources else _tests_about(gap.description, places))
    )


def _tests_about(text: str, places: Places) -> tuple[str, ...]:
    """List the tests named after the first word of what is to be tested.

    It is the first word that any test has in its name.
    """
    subject = _SUBJECT.search(text)
    words = re.findall(r"[^\W\d_][\w-]{2,}", subject[1]) if subject else []
    found = (places.tests_of(word) for word in words[:MANY] if word.casefold() not in NO_NAMES)
    return next(filter(None, found), ())


def _failing(gap: Gap, inventory: Inventory) -> tuple[str, ...]:
    named = inventory.places.locate_all(evidence.mentions(gap.evidence, odd=inventory.places.odd))
    files = _blamed(named, inventory.places) if evidence.runs_tests(gap.description) else named
    return files or _targets(gap, inventory)


def _blamed(files: tuple[str, ...], places: Places) -> tuple[str, ...]:
    """Find the files that may be at fault where tests failed.

    A failing test names itself, seldom what it tests: a step could do nothing but change the tests. Where any of many
    sources may be meant, somebody has to look.
    """
    if not files or any(role_of(path) is not Role.TEST for path in files):
        return files
    sources = places.sources_for(files) or places.sources
    return (*files, *sources)[:MAX_TARGETS] if len(sources) <= MANY else ()


def _split(
    gap: Gap, targets: tuple[str, ...], otherwise: ActionType, inventory: Inventory
) -> tuple[PlannedAction, ...]:
    """Make one action for what is new and one for what exists.

    A gap that maps to nothing is created somewhere.
    """
    if not targets:
        return (_action(gap, (), CREATE),)
    if not inventory.places.existing:
        return (_action(gap, targets, otherwise),)
    new = tuple(path for path in targets if path not in inventory.places.existing)
    old = tuple(path for path in targets if path not in new)
    return tuple(_action(gap, files, kind) for files, kind in ((new, CREATE), (old, MODIFY)) if files)


def _bounded(targets: tuple[str, ...], bounds: Bounds) -> tuple[str, ...]:
    """Keep the targets that the constraints allow.

    Where only certain files may change, and none of them is a target, all of them are.
    """
    only = Protection.of(bounds.only)
    kept = tuple(path for path in targets if only.covers(path)) or bounds.only or targets
    return Protection.of(bounds.excluded).without(kept)


def _documents(gap: Gap, targets: Iterable[str], inventory: Inventory) -> tuple[ModuleDocument, ...]:
    of_modules = inventory.documents.of_modules(inventory.places.modules_in(gap.description))
    return tuple(dict.fromkeys((*of_modules, *inventory.documents.around(targets))))


def _action(gap: Gap, targets: tuple[str, ...], kind: ActionType) -> PlannedAction:
    said = fit(gap.description, MAX_DESCRIPTION) or f"Close a {fit(gap.category, 80)} gap"
    return PlannedAction(description=said, target_files=targets[:MAX_TARGETS], action_type=kind)


def _opening(words: str) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{words})\b", re.IGNORECASE)


_SUBJECT = re.compile(r"\btests?\s+(?:for|of)\s+([^\n]{1,200})", re.IGNORECASE)

VERBS = (  # the first that fits; the last one always does
    Verb(_opening(r"(?:(?:unit|integration|add|write|more)\s+){0,2}tests?\s+(?:for|of)"), _tests, CREATE),
    Verb(_opening(r"all\s+(?:\w+\s+){0,3}(?:pass|passes)"), _failing, MODIFY, always=True),
    Verb(_opening(r"create"), _targets, CREATE),
    Verb(_opening(r"implement"), _targets, CREATE),
    Verb(_opening(r"remove|delete"), _targets, DELETE, always=True),
    Verb(re.compile(""), _targets, MODIFY),
)
_CATEGORIES: Mapping[str, Callable[[Gap, Inventory], Remedy]] = MappingProxyType(
    {"quality": _quality, "inbox": _inbox, "roadmap": _roadmap}
)
