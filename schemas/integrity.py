"""Findings about tests and checks that a change touches, and the actions that a policy may choose for them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from schemas.base import Inbound, Path
from schemas.text_kinds import TextKind

MOST_PLACES = 50
MOST_KINDS = 100
WHAT_CHARS = 200
MOST_MUTANTS = 20  # of one change

KindName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z_]+$"), TextKind.KEY]


class IntegrityFamily(StrEnum):
    """Families of findings; a policy has one row for each family."""

    WEAKENS_TESTS = "weakens_tests"
    ALTERS_TESTS = "alters_tests"
    SUPPRESSES = "suppresses"
    SUPPRESSES_OWN = "suppresses_own"
    LOOSENS = "loosens"
    EVADES = "evades"
    SPECIAL_CASES = "special_cases"
    TESTS_DIVERGE = "tests_diverge"
    UNNOTICED = "unnoticed"


class IntegrityAction(StrEnum):
    """The actions that a policy may choose for a finding."""

    REFUSE = "refuse"
    APPROVE = "approve"  # a person looks at it
    TELL = "tell"
    PASS = "pass"  # noqa: S105 (no password): it is counted, and nothing else becomes of it


def _cut(value: object) -> object:
    return value[:MOST_PLACES] if isinstance(value, list | tuple) else value


class IntegrityPlace(Inbound):
    """One place of a change, and the finding there: a line of it, truncated."""

    kind: KindName
    path: Path
    line: int = Field(default=1, ge=0, le=10**9)
    what: Annotated[
        str,
        BeforeValidator(lambda value: value[:WHAT_CHARS] if isinstance(value, str) else value),
        StringConstraints(max_length=WHAT_CHARS),
        TextKind.LOG,
    ] = ""


class Integrity(Inbound):
    """Findings of one change: the count of each kind, and places."""

    counts: Annotated[dict[KindName, Annotated[int, Field(ge=0, le=10**9)]], Field(max_length=MOST_KINDS)] = Field(
        default_factory=dict
    )
    places: Annotated[tuple[IntegrityPlace, ...], Field(max_length=MOST_PLACES), BeforeValidator(_cut)] = ()
