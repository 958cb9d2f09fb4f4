"""The types that all messages share: enums, constrained strings and the model bases."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Annotated, Any, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints

from schemas.text_kinds import TextKind

SCHEMA_VERSION = 1
MOST_NAMED = 50  # unknown fields of a message
NAMED_CHARS = 200  # of the pointer of one

GoalId = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\s\x00-\x1f\x7f\x85]+$"), TextKind.NAME
]
PlanId = Annotated[str, StringConstraints(pattern=r"^plan_[0-9a-f]{2}-[0-9a-f]{32}$"), TextKind.KEY]
StepId = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]{1,64}$"), TextKind.KEY]
QueueName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$"), TextKind.KEY]
EndpointId = Annotated[str, StringConstraints(pattern=r"^ep_[0-9a-f]{16}$"), TextKind.KEY]
Word = Annotated[str, StringConstraints(min_length=1, max_length=200), TextKind.SENTENCE]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200), TextKind.NAME]
Path = Annotated[str, StringConstraints(min_length=1, max_length=512), TextKind.PATH]
Folder = Annotated[str, StringConstraints(min_length=1, max_length=512), TextKind.KEY]  # `.` is the root
Line = Annotated[str, StringConstraints(max_length=1000), TextKind.SENTENCE]
CommandLine = Annotated[str, StringConstraints(max_length=1000), TextKind.COMMAND]


class GoalKind(StrEnum):
    """The five kinds of goal."""

    TASK = "task"
    GAP_REPORT = "gap_report"
    CAMPAIGN = "campaign"
    REVIEWED_PLAN = "reviewed_plan"
    EVOLUTION = "evolution"


class Overlap(StrEnum):
    """The ways to treat a plan that may change the same files as live plans."""

    ALLOW = "allow"
    WAIT = "wait"
    REFUSE = "refuse"


class Duplicates(StrEnum):
    """The ways to treat a goal that repeats an open change or a live plan of its repository."""

    ALLOW = "allow"
    WAIT = "wait"
    REFUSE = "refuse"
    ADOPT = "adopt"


class RiskLevel(StrEnum):
    """How much damage a step can do; the limits of the step depend on it."""

    LOW = "LOW"
    MED = "MED"
    HIGH = "HIGH"


class StepType(StrEnum):
    """The kind of work that a step requests from a controller; it determines the step's mode."""

    PATCH = "PATCH"
    TEST = "TEST"
    READ = "READ"
    EXPLORE = "EXPLORE"
    DRAFT = "DRAFT"
    REVIEW = "REVIEW"
    DOCUMENT = "DOCUMENT"
    LAND = "LAND"
    DELIVER = "DELIVER"


class Mode(StrEnum):
    """Whether a controller may write, only run the verification, or only answer."""

    PATCH = "patch"
    TEST = "test"
    READ_ONLY = "read_only"


MODE_OF_TYPE = dict.fromkeys(StepType, Mode.READ_ONLY) | {
    StepType.PATCH: Mode.PATCH,
    StepType.TEST: Mode.TEST,
    StepType.LAND: Mode.TEST,
}


class StepState(StrEnum):
    """States of the step machine."""

    PENDING = "PENDING"
    BLOCKED = "BLOCKED"
    ACTIVE = "ACTIVE"
    DONE = "DONE"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    HALTED = "HALTED"


class PlanState(StrEnum):
    """States of the plan machine."""

    CREATED = "CREATED"
    VALIDATING = "VALIDATING"
    REJECTED = "REJECTED"
    READY = "READY"
    EXECUTING = "EXECUTING"
    REVISING = "REVISING"
    COMPLETED = "COMPLETED"
    HALTED = "HALTED"


class GoalVerdict(StrEnum):
    """The result of a goal."""

    PENDING = "PENDING"
    PLANNED = "PLANNED"
    REJECTED = "REJECTED"
    NEEDS_INPUT = "NEEDS_INPUT"
    NOTHING_TO_DO = "NOTHING_TO_DO"


class Verdict(StrEnum):
    """The result of an outcome; only APPLIED changes state."""

    APPLIED = "applied"
    DUPLICATE = "duplicate"
    LATE = "late"
    UNKNOWN = "unknown"
    REFUSED = "refused"


class FailureCategory(StrEnum):
    """Why an attempt failed; only the planner reports the last ones."""

    TEST_REGRESSION = "TEST_REGRESSION"
    TEST_TIMEOUT = "TEST_TIMEOUT"
    FLAKY_TEST = "FLAKY_TEST"
    COMPILATION_ERROR = "COMPILATION_ERROR"
    TYPE_ERROR = "TYPE_ERROR"
    LINT_ERROR = "LINT_ERROR"
    IMPORT_ERROR = "IMPORT_ERROR"
    SANDBOX_VIOLATION = "SANDBOX_VIOLATION"
    HYGIENE_VIOLATION = "HYGIENE_VIOLATION"
    ALLOWLIST_VIOLATION = "ALLOWLIST_VIOLATION"
    BUDGET_EXCEEDED = "BUDGET_EXCEEDED"
    UNKNOWN = "UNKNOWN"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    OUTPUT_REFUSED = "OUTPUT_REFUSED"
    NO_CHANGE = "NO_CHANGE"
    TOO_MANY_FILES = "TOO_MANY_FILES"
    RISK_EXCEEDED = "RISK_EXCEEDED"
    CANNOT_VERIFY = "CANNOT_VERIFY"
    INTEGRITY = "INTEGRITY"
    NO_PROOF = "NO_PROOF"
    TESTS_DIVERGE = "TESTS_DIVERGE"


# `defer_build`: a process builds a model at its first use, so that it starts faster. pydantic locks this since 2.14.


class Inbound(BaseModel):
    """A message from outside: unknown fields are ignored, and `unknown_fields` counts them."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)


class Outbound(BaseModel):
    """A message or record of the planner: an undeclared field is a defect."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Record(Outbound):
    """A record that the planner reads back from the store: fields of a newer version are kept and written again.

    mypy reports undeclared fields.
    """

    model_config = ConfigDict(extra="allow", defer_build=True)


def unknown_fields(message: Inbound) -> int:
    """Count the fields of `message`, at any depth, that this version of the wire does not know."""
    count, held = len(message.__pydantic_extra__ or ()), message.__dict__
    for name in _fields_with_models(type(message)):
        value = held[name]
        if value is not None:
            for item in value if isinstance(value, tuple) else (value,):
                if isinstance(item, Inbound):
                    count += unknown_fields(item)
    return count


class UnknownFields(NamedTuple):
    """JSON pointers to fields that this version of the wire does not know, each with the most similar known name."""

    pointers: tuple[str, ...] = ()
    nearest: tuple[str | None, ...] = ()


def name_unknown_fields(message: Inbound) -> UnknownFields:
    """Return the first MOST_NAMED fields of `message`, at any depth, that this version of the wire does not know."""
    if not unknown_fields(message):  # as of nearly all
        return UnknownFields()
    named = list(islice(_unknown(message, ""), MOST_NAMED))
    return UnknownFields(tuple(pointer for pointer, _ in named), tuple(near for _, near in named))


def _unknown(message: Inbound, pointer: str) -> Iterator[tuple[str, str | None]]:
    known = [field.alias or name for name, field in type(message).model_fields.items()]
    for name in message.__pydantic_extra__ or ():
        near = get_close_matches(name[:NAMED_CHARS].lower(), known, n=1)
        shown = name.replace("~", "~0").replace("/", "~1")
        yield f"{pointer}/{shown}"[:NAMED_CHARS], near[0] if near else None
    for name in _fields_with_models(type(message)):
        value = getattr(message, name)
        items = [(f"/{place}", item) for place, item in enumerate(value)] if isinstance(value, tuple) else [("", value)]
        for place, item in items:
            if isinstance(item, Inbound):
                yield from _unknown(item, f"{pointer}/{name}{place}")


@cache
def _fields_with_models(model: type[Inbound]) -> tuple[str, ...]:
    """Return the fields that may hold models; the hot path reads no others."""
    return tuple(name for name, field in model.model_fields.items() if _mentions_model(field.annotation))


def _mentions_model(annotation: Any) -> bool:
    if isinstance(annotation, type):
        return issubclass(annotation, Inbound)
    return any(_mentions_model(part) for part in get_args(annotation))
