"""qr-{phase}.json and what a gate leaves behind: items, severities, verdicts, the loop of a gate."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, StringConstraints, field_validator

from schemas.base import Inbound, Line, Record, Word

QR_SCHEMA_VERSION = "1.0"
MAX_ITEMS = 200  # of one phase
MAX_GATES = 500  # records that are kept

ItemId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")]
Finding = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"\S")]


class QrPhase(StrEnum):
    """What a review is about."""

    PLAN_DESIGN = "plan-design"
    PLAN_CODE = "plan-code"
    PLAN_DOCS = "plan-docs"
    IMPL_CODE = "impl-code"
    IMPL_DOCS = "impl-docs"


class Severity(StrEnum):
    """How much an item matters; the later the iteration, the fewer of them block."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    COULD = "COULD"


class ItemStatus(StrEnum):
    """What the reviewer said of an item."""

    TODO = "TODO"
    PASS = "PASS"  # noqa: S105  a verdict, not a password
    FAIL = "FAIL"


class LoopState(StrEnum):
    """Where the loop of a gate stands."""

    INITIAL = "INITIAL"
    RETRY = "RETRY"
    COMPLETE = "COMPLETE"


class GateVerdict(StrEnum):
    """What a gate said: ACCEPTED is a pass by a person's word, SKIPPED a review that did not take place."""

    PASS = "PASS"  # noqa: S105  a verdict, not a password
    FAIL = "FAIL"
    ACCEPTED = "ACCEPTED"
    SKIPPED = "SKIPPED"


class QrItem(Record):
    """One thing that is checked, and what came of it."""

    id: ItemId
    scope: Line = "*"  # everything, or file:path:lines
    check: Line
    status: ItemStatus = ItemStatus.TODO
    finding: str | None = None
    severity: Severity = Severity.SHOULD
    version: int = 1
    fail_count: int = 0
    accepted: bool = False
    acceptance_reason: str | None = None


class QrFile(Record):
    """qr-{phase}.json: it lives from the first review of a phase until its gate passes."""

    schema_version: str = QR_SCHEMA_VERSION
    phase: QrPhase
    iteration: int = 1
    items: tuple[QrItem, ...] = ()


class ReviewedItem(Inbound):
    """What a reviewer says of one item; a new one needs its `check`."""

    id: ItemId
    scope: Annotated[str, StringConstraints(min_length=1, max_length=1000)] | None = None
    check: Annotated[str, StringConstraints(min_length=1, max_length=1000, pattern=r"\S")] | None = None
    severity: Severity | None = None
    status: ItemStatus
    finding: Finding | None = None


class Review(Inbound):
    """The output of a review: every item decided; `verdict` is the reviewer's own word, and the items win."""

    items: tuple[ReviewedItem, ...] = Field(min_length=1, max_length=MAX_ITEMS)
    verdict: str | None = None

    @field_validator("verdict", mode="before")
    @classmethod
    def _any_word(cls, value: Any) -> str | None:
        """Take whatever was claimed as a short word: nothing hangs on it."""
        return None if value is None else str(value)[:20].strip().upper()


class GateRecord(Record):
    """What stays of a review once its gate has spoken."""

    phase: QrPhase
    iteration: int
    verdict: GateVerdict
    blocks: tuple[Severity, ...]  # what blocked at this iteration
    counts: dict[Severity, dict[ItemStatus, int]] = Field(default_factory=dict)
    blocking: tuple[ItemId, ...] = ()
    findings: tuple[str, ...] = ()  # of the first of them, since their file goes when the gate passes
    claimed: Word | None = None  # the reviewer's word
    contradicted: bool = False  # the items said otherwise
    accepted: tuple[ItemId, ...] = ()
    reason: str | None = None
