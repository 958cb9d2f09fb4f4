"""Read the text of a policy: TOML becomes the rules that decide about plans, or a list of its mistakes."""

from __future__ import annotations

import tomllib
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from hashlib import blake2b
from itertools import pairwise
from typing import Any, NamedTuple, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.base import FailureCategory, GoalKind, RiskLevel
from schemas.integrity import IntegrityFamily
from schemas.policy import FORMAT, GoalTable, GoalType, Limits, PolicyFile, RiskTable
from schemas.wording import expected
from tasks.base.errors import PlannerError
from tasks.base.policy import BUILT_IN, GoalRules, Policy

MAX_BYTES = 256 * 1024
DIGEST_BYTES = 24  # 32 characters of base64
MOST_TOLD = 50  # reported mistakes
SCOPES = ("kind", "tenant", "repository")

Path = tuple[str, ...]


class Mistake(NamedTuple):
    """A wrong key of a policy with the reason; `line` is 0 if the text does not have the key."""

    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"line {self.line}, " if self.line else ""
        return f"{place}{self.key}: {self.message}" if self.key else f"{place}{self.message}"


class Lines(NamedTuple):
    """Line numbers in a text: `at` has the line of each key or table.

    `within` has the first line that names the key or table, or anything below it.
    """

    at: dict[Path, int]
    within: dict[Path, int]


class WrongPolicy(PlannerError):
    """The text is no policy, or none that this version reads; `mistakes` has the reasons."""

    def __init__(self, *mistakes: Mistake) -> None:
        super().__init__("; ".join(map(str, mistakes)))
        self.mistakes = mistakes


def digest_of(text: bytes) -> str:
    """Return the digest of a policy: BLAKE2b of 24 bytes over its text, as base64url without padding."""
    return urlsafe_b64encode(blake2b(text, digest_size=DIGEST_BYTES).digest()).decode()


def read_policy(text: bytes) -> Policy:
    """Return the built-in rules with those of the policy added. Raises WrongPolicy with at most MOST_TOLD mistakes."""
    table, lines = read_table(text), _find_lines(text.decode())
    wrong: list[Mistake] = []
    try:
        file = PolicyFile.model_validate(table)
    except ValidationError as error:
        wrong = [_mistake(each, lines) for each in error.errors()]
        for each in error.errors():
            _leave_out(table, each["loc"])
        file = PolicyFile.model_validate(table)  # to check the remaining keys, too
    wrong += _wider(file, lines)
    if wrong:
        raise WrongPolicy(*sorted(wrong)[:MOST_TOLD])
    return _policy(file, digest_of(text))


def read_table(text: bytes) -> dict[str, Any]:
    """Parse the TOML of a policy. Raises WrongPolicy if it is too large, not TOML, or of a newer format."""
    if len(text) > MAX_BYTES:
        raise WrongPolicy(Mistake(0, "", f"It has {len(text)} bytes; a policy has at most {MAX_BYTES}."))
    try:
        table = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise WrongPolicy(Mistake(0, "", f"It is no TOML: {error}.")) from error
    said = table.get("format", FORMAT)
    if type(said) is int and said > FORMAT:
        message = f"it is format {said}, and this version reads {FORMAT}: take a newer planner."
        raise WrongPolicy(Mistake(_line_of(("format",), _find_lines(text.decode())), "format", message))
    return table


def flatten(table: Mapping[str, Any], before: Path = ()) -> dict[str, Any]:
    """Return the values of a policy by their full key, such as `tenant.acme.most.tokens`."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        path = (*before, name)
        found |= flatten(value, path) if isinstance(value, Mapping) else {_name(path): value}
    return found


def _policy(file: PolicyFile, digest: str) -> Policy:
    attempts = dict(BUILT_IN.attempts)
    for level, table in file.risk.items():
        attempts[level] = replace(attempts[level], **table.model_dump(exclude_none=True))
    tables: list[tuple[dict[str, Any], GoalTable]] = [({}, file)]
    tables += [({scope: name}, table) for scope in SCOPES for name, table in getattr(file, scope).items()]
    rows = tuple(
        GoalRules(
            **about,
            defaults=table.defaults.model_dump(exclude_none=True),
            most=table.most.model_dump(exclude_none=True),
            approvals=table.approvals,
            overlap=table.overlap,
            duplicates=table.duplicates,
            integrity={str(name): rows for name, rows in table.integrity.items()},
        )
        for about, table in tables
    )
    retries = {**BUILT_IN.retries, **{category.value: most for category, most in file.retries.items()}}
    return replace(BUILT_IN, digest=digest, goals=BUILT_IN.goals + rows, attempts=attempts, retries=retries)


def _wider(file: PolicyFile, lines: Lines) -> Iterator[Mistake]:
    """Yield a mistake for each value that allows more than the built-in rules, and for each default above `most`."""
    for level, table in file.risk.items():
        ours = BUILT_IN.attempts[level]
        for name in ("retries", "max_diff_lines"):
            said, most = getattr(table, name), getattr(ours, name)
            if said is not None and said > most:
                yield _told(("risk", level.value, name), f"{said} is more than {most}; a policy only tightens.", lines)
    for category, said in file.retries.items():
        most = BUILT_IN.retries.get(category, said)
        if said > most:
            yield _told(("retries", category.value), f"{said} is more than {most}; a policy only tightens.", lines)
    for path, one in _goal_tables(file):
        most_of = one.most.model_dump(exclude_none=True)
        for name, said in one.defaults.model_dump(exclude_none=True).items():
            if said > most_of.get(name, said):
                yield _told((*path, "defaults", name), f"{said} is above most.{name}, {most_of[name]}.", lines)


def _goal_tables(file: PolicyFile) -> Iterator[tuple[Path, GoalTable]]:
    yield (), file
    for scope in SCOPES:
        for name, table in getattr(file, scope).items():
            yield (scope, str(name)), table


def _leave_out(table: dict[str, Any], loc: Sequence[int | str]) -> None:
    """Remove the wrong key from a table; an entry of a list is removed with its whole list."""
    inner: Any = table
    for part, after in pairwise(loc):
        if not isinstance(after, str) or after == "[key]":
            inner.pop(part, None)
            return
        inner = inner.get(part, {})
    inner.pop(loc[-1], None)


def _told(path: Path, message: str, lines: Lines) -> Mistake:
    return Mistake(_line_of(path, lines), _name(path), message)


def _mistake(error: ErrorDetails, lines: Lines) -> Mistake:
    """Return the mistake for a validation error; for an unknown key it suggests a similar one."""
    path = tuple(str(part) for part in error["loc"] if part != "[key]")
    message = expected(error)[:1].lower() + expected(error)[1:]
    if error["type"] == "extra_forbidden" or error["loc"][-1] == "[key]":
        known = _known(path)
        name = path[-1] if path else ""
        near = get_close_matches(name, known, 1, 0.5) or get_close_matches(name.upper(), known, 1, 0.5)
        message = "there is no such key" + (f": it may be `{near[0]}`" if near else f"; there are {', '.join(known)}")
    elif error["type"] in ("model_type", "dict_type"):
        message = "a table is wanted"
    elif not isinstance(error["input"], dict | list):
        message += f", not {error['input']!r:.40}"
    return _told(path, f"{message}.", lines)


def _known(path: Path) -> list[str]:
    """List the valid names at the last place of `path`."""
    match path[:-1]:
        case ():
            return list(PolicyFile.model_fields)
        case ("kind",):
            return list(GoalKind)
        case ("risk",):
            return list(RiskLevel)
        case ("retries",):
            return list(FailureCategory)
        case ("risk", _):
            return list(RiskTable.model_fields)
        case (*_, "integrity"):
            return list(get_args(GoalType))
        case (*_, "integrity", _):
            return list(IntegrityFamily)
        case (*_, "defaults" | "most"):
            return list(Limits.model_fields)
    return list(GoalTable.model_fields)


def _name(path: Path) -> str:
    return ".".join(part if part.replace("_", "").replace("-", "").isalnum() else f'"{part}"' for part in path)


def _line_of(path: Path, lines: Lines) -> int:
    """Return the line of a key, or of the nearest table around the key; 0 if the text has neither."""
    if path in lines.within:
        return lines.within[path]
    return next((lines.at[path[:size]] for size in range(len(path), 0, -1) if path[:size] in lines.at), 0)


def _find_lines(text: str) -> Lines:
    """Find the line of each key and each table of a policy."""
    table: Path = ()
    lines = Lines({}, {})
    for number, line in enumerate(text.splitlines(), 1):
        said = line.strip()
        is_table = said.startswith("[")
        found = _keys_of(said if is_table else f"{said.partition('=')[0]} = 0" if "=" in said else "")
        if not found:
            continue
        table, place = (found, found) if is_table else (table, (*table, *found))
        lines.at.setdefault(place, number)
        for size in range(1, len(place) + 1):
            lines.within.setdefault(place[:size], number)
    return lines


def _keys_of(text: str) -> Path:
    """Return the keys that a line names; empty for a line in the middle of a value."""
    try:
        found: Any = tomllib.loads(text)
    except ValueError:
        return ()
    keys: list[str] = []
    while isinstance(found, Mapping) and found:
        name, found = next(iter(found.items()))
        keys.append(name)
    return tuple(keys)
