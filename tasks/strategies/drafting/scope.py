"""Chooses the files that one step may change: an allowlist is a permission, not a list of required changes.

If a goal names few files, `pieces` makes its steps. Any other goal gets one step, with the likeliest files and the
patterns of the goal. Only the attempt shows the files that this step changes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from schemas import codec
from schemas.base import RiskLevel
from schemas.step import MAX_EXCLUDED, MAX_LITERAL, MAX_PATTERNS, Place, fields_of
from tasks.rules.permission import PATTERNS
from tasks.rules.risk import RISK, assess, assess_declared, is_below
from tasks.strategies.drafting.pieces import PHASES
from tasks.strategies.drafting.project import Project
from tasks.text.paths import is_glob
from tasks.text.patterns import matches
from tasks.toolchain.files import Role, chunks, configuration_of, files_of, role_of

MAX_BYTES = 8192  # of files, patterns and focus, as JSON
MOST_PIECES = 3  # parts of named files
MOST_RISKIER = 30  # files above its level that a step gets in its exclusions
_ORDER = tuple(RISK)
_IN_FILES = re.compile(r"[.*]")  # in the name of a file, and of few folders


@dataclass(frozen=True, slots=True)
class Scope:
    """The files that one step may change; `is_open` is true if its changes are known only after the attempt."""

    files: tuple[str, ...]
    level: RiskLevel
    phase: str | None = None
    patterns: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    focus: tuple[Place, ...] = ()
    is_open: bool = False

    @property
    def requires(self) -> tuple[str, ...]:
        """The capabilities that a controller needs to take the step: PATTERNS if the step names no single file."""
        return (PATTERNS,) if self.patterns and not self.files else ()


def sample(pattern: str) -> str:
    """Return a path that `pattern` matches; its role is the role of the files that the pattern is for."""
    return "/".join(
        "x" if set(part) <= {"*", "?"} else part.replace("*", "x").replace("?", "x") for part in pattern.split("/")
    )


def is_for(pattern: str, roles: Sequence[Role], files: Sequence[str]) -> bool:
    """Return whether a step that changes files of these roles gets this pattern.

    The roles of the pattern are those of the `files` that it matches, and of a sample path. A pattern that also matches
    sources only counts for steps that change sources.
    """
    shown = {role_of(path) for path in files if matches(pattern, path)} or {role_of(sample(pattern))}
    return not shown.isdisjoint(roles) if Role.SOURCE in roles else shown <= {*roles}


def scopes(
    project: Project, roles: Sequence[Role], files: tuple[str, ...], risk: RiskLevel, *, spares_tests: bool
) -> tuple[Scope, ...]:
    """Return the scopes of the steps that change `files` of the given `roles`, at `risk` or above.

    A named file that is riskier than the others gets a separate step. A riskier file that only a pattern matches may
    not change. With `spares_tests` failing tests that the goal does not name may not change.
    """
    patterns = tuple(each for each in project.patterns if is_for(each, roles, project.files))
    shown = files or tuple(map(sample, patterns))
    if not shown:
        return ()
    levels = {path: assess_declared(risk, (path,)).level for path in shown}
    least = min(levels.values(), key=_ORDER.index)
    apart = tuple(path for path in files if path in project.named and levels[path] is not least)
    is_whole = spares_tests or bool(files_of(files, Role.MANIFEST))
    found: list[Scope] = []
    for level in reversed(_ORDER):
        if part := tuple(path for path in apart if levels[path] is level):
            found += _of_names(project, part, level, is_whole=is_whole, is_focused=spares_tests)
    fitting = tuple(path for path in files if levels[path] is least)
    if patterns:
        found += _phases(_of_patterns(project, fitting, patterns, least, spares_tests=spares_tests))
    elif fitting:
        found += _of_names(project, fitting, least, is_whole=is_whole, is_focused=spares_tests)
    return tuple(found)


def _of_names(
    project: Project, files: tuple[str, ...], level: RiskLevel, *, is_whole: bool, is_focused: bool
) -> list[Scope]:
    """Return the scopes of a change of named files.

    If the files need only a few steps, they are split; if the work `is_whole`, they have to fit into one step. More
    files make one open scope with the likeliest files. `is_focused` adds the likely places to small scopes.
    """
    most = RISK[level].max_files
    if len(files) <= (most if is_whole else MOST_PIECES * most):
        parts = (Scope(part, level, focus=_choice(project, part) if is_focused else ()) for part in chunks(files, most))
        return [scope for part in parts for scope in _phases(part)]
    ordered = _likeliest_first(project.focus, files)
    more = ordered[MAX_LITERAL:][:MAX_PATTERNS]
    focus = _among(project.focus, files)
    return _phases(_within_bytes(Scope(ordered[:MAX_LITERAL], level, None, more, (), focus, is_open=True)))


def _of_patterns(
    project: Project, files: tuple[str, ...], patterns: tuple[str, ...], level: RiskLevel, *, spares_tests: bool
) -> Scope:
    spared = project.failing_files if spares_tests else frozenset()
    kept = tuple(path for path in files if path not in spared)
    files = _likeliest_first(project.focus, kept, project.named)[:MAX_LITERAL]
    excluded = tuple(_excluded(project, patterns, level, spared))[:MAX_EXCLUDED]
    focus = _among(project.focus, kept)
    return _within_bytes(Scope(files, level, None, patterns[:MAX_PATTERNS], excluded, focus, is_open=True))


def _phases(scope: Scope) -> list[Scope]:
    """Return a scope for each phase of its risk level; only the scope itself if the level has no phases."""
    return [replace(scope, phase=phase) for phase in (PHASES if RISK[scope.level].two_phase else (None,))]


def _excluded(project: Project, patterns: Sequence[str], level: RiskLevel, spared: Collection[str]) -> Iterator[str]:
    """Yield the paths and patterns that the step may not change, although its patterns match them."""
    yield from sorted(path for path in spared if _is_matched(patterns, path))
    riskier = [path for path in project.files if path not in project.named and is_below(level, assess((path,)).level)]
    yield from [path for path in riskier if _is_matched(patterns, path)][:MOST_RISKIER]
    yield from dict.fromkeys(name for language in project.languages for name in configuration_of(language))
    names = [name for name in project.forbidden.names if "[" not in name]  # they are literal in a pattern
    yield from (f"**/{name}" for name in names if not name.endswith("/"))
    folders = sorted((name.rstrip("/") for name in names), key=lambda name: _IN_FILES.search(name[1:]) is not None)
    yield from (f"**/{name}/**" for name in folders)


def _is_matched(patterns: Sequence[str], path: str) -> bool:
    return any(matches(pattern, path) for pattern in patterns)


def _choice(project: Project, files: tuple[str, ...]) -> tuple[Place, ...]:
    """Return the likely places among `files`; empty if there is only one file."""
    return _among(project.focus, files) if len(files) > 1 else ()


def _among(focus: Sequence[Place], files: Sequence[str]) -> tuple[Place, ...]:
    there = frozenset(files)
    return tuple(place for place in focus if place.path in there)


def _likeliest_first(focus: Sequence[Place], files: Sequence[str], named: Collection[str] = ()) -> tuple[str, ...]:
    """Return the paths without globs, in this order: likely places, named files, files near a likely place, sources."""
    places = {place.path: rank for rank, place in enumerate(focus)}
    near = {path.rpartition("/")[0] for path in places}

    def rank(path: str) -> tuple[int, bool, bool, bool]:
        beside = path.rpartition("/")[0] in near
        return places.get(path, len(places)), path not in named, not beside, role_of(path) is not Role.SOURCE

    return tuple(sorted((path for path in files if not is_glob(path)), key=rank))


def _within_bytes(scope: Scope) -> Scope:
    """Return the scope without the last places, patterns and files that do not fit into MAX_BYTES, in this priority."""
    room = MAX_BYTES - len(codec.dumps([[], [], []]))
    kept: list[list[Any]] = []
    for values in (scope.focus, scope.patterns, scope.files):
        kept.append([])
        for value in values:
            room -= len(codec.dumps(value, fields_of)) + 1
            if room < 0:
                break
            kept[-1].append(value)
    focus, patterns, files = kept
    return replace(scope, focus=tuple(focus), patterns=tuple(patterns), files=tuple(files))
