"""Outcomes as a decision gets them: with the fields of their stream entries."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from msgspec import Struct

from schemas.outcome import Outcome
from schemas.plain_outcome import PlainOutcome


class Report(NamedTuple):
    """An outcome with the fields of its stream entry.

    `raw` contains the outcome's bytes, and `digest` is their digest. `unknown` is the number of fields that this
    version does not know. `entry` is the id of the entry in the stream.
    """

    outcome: Outcome
    attempt: int | None
    lease: str | None
    raw: bytes
    digest: str
    unknown: int = 0
    entry: str | None = None

    @property
    def step_id(self) -> str:
        """The step of the reported attempt."""
        return self.outcome.step_id

    @property
    def needs_lease(self) -> bool:
        """Return whether the decision needs the contents of the attempt's lease."""
        if self.lease is None or self.outcome.released is not None:
            return True
        return not self.outcome.success and self._may_not_have_run

    @property
    def _may_not_have_run(self) -> bool:
        """Return whether a verification may have failed because it could not run; then the attempt's host matters."""
        receipts = self.outcome.verify or ()
        told = self.outcome.cannot_verify is not None or self.outcome.verified_at is not None
        return told or (bool(receipts) and receipts[-1].exit_code > 1)


class PlainReport(Struct, frozen=True, gc=False):
    """An outcome in the strict form: its bytes (`raw`), their `digest`, and the id of its stream entry."""

    needs_lease: ClassVar[bool] = False  # as that of Report
    said: PlainOutcome
    raw: bytes
    digest: str
    entry: str

    @property
    def step_id(self) -> str:
        """The step of the reported attempt."""
        return self.said.step_id

    def ordinary(self) -> Report:
        """Read the outcome as an ordinary report."""
        outcome, said = Outcome.model_validate_json(self.raw), self.said
        return Report(outcome, said.attempt, said.lease, self.raw, self.digest, 0, self.entry)
