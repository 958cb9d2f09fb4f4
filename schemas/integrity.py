"""What a change does to tests and checks: what a controller reports of it, and what may become of that."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, StringConstraints

from schemas.base import Inbound, Path
from schemas.text_kinds import TextKind

MOST_PLACES = 50
MOST_KINDS = 100
WHAT_CHARS = 200

KindName = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"^[a-z_]+$"), TextKind.KEY]


class IntegrityFamily(StrEnum):
    """What kinds of findings have in common; a policy has a row for each."""

    WEAKENS_TESTS = "weakens_tests"
    ALTERS_TESTS = "alters_tests"
    SUPPRESSES = "suppresses"
    SUPPRESSES_OWN = "suppresses_own"
    LOOSENS = "loosens"
    EVADES = "evades"
    SPECIAL_CASES = "special_cases"
    TESTS_DIVERGE = "tests_diverge"


class IntegrityAction(StrEnum):
    """What becomes of a change with such a finding."""

    REFUSE = "refuse"
    APPROVE = "approve"  # a person looks at it
    TELL = "tell"
    PASS = "pass"  # noqa: S105 (no password): it is counted, and nothing else becomes of it


def _cut(value: object) -> object:
    return value[:MOST_PLACES] if isinstance(value, list | tuple) else value


class IntegrityPlace(Inbound):
    """One place of a change, and what was found there: a line of it, cut."""

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
    """What a change was found to do to tests and checks: how often each kind, and where."""

    counts: Annotated[dict[KindName, Annotated[int, Field(ge=0, le=10**9)]], Field(max_length=MOST_KINDS)] = Field(
        default_factory=dict
    )
    places: Annotated[tuple[IntegrityPlace, ...], Field(max_length=MOST_PLACES), BeforeValidator(_cut)] = ()
