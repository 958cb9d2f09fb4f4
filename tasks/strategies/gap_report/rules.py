"""What an operator decides about iterations; without a word of theirs, the seed's document holds.

| option | as the document has it, our default | as the first implementation did it |
|---|---|---|
| gap_protected | `action`: one that names a protected file is left out | `file`: that file is, the others stay |
| gap_high_risk | `failed`: a gap that ever failed is of high risk | `exhausted`: one that failed three times in a row |
| gap_max_failures | 3: so many in a row of one gap, and another gap comes first | the same |
| gap_checks | ruff and pyright, by the ids of their contracts | the same; a project may check its types with mypy |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.gap import PlannedAction
from tasks.strategies.gap_report.history import MAX_FAILURES, Past
from tasks.strategies.gap_report.protection import Protection
from tasks.strategies.gap_report.verification import CHECKS


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that an operator has chosen."""

    by_file: bool = False
    only_exhausted: bool = False
    checks: tuple[str, ...] = CHECKS
    max_failures: int = MAX_FAILURES

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Rules:
        """Read the operator's options."""
        by_file, only_exhausted = options.get("gap_protected") == "file", options.get("gap_high_risk") == "exhausted"
        checks, failures = tuple(options.get("gap_checks", CHECKS)), int(options.get("gap_max_failures", MAX_FAILURES))
        return cls(by_file, only_exhausted, checks, failures)

    def spared(self, actions: Iterable[PlannedAction], protection: Protection) -> tuple[PlannedAction, ...]:
        """Leave out what is protected; an action that keeps none of its files goes with them."""
        found = []
        for action in actions:
            left = protection.without(action.target_files)
            if left == action.target_files:
                found.append(action)
            elif left and self.by_file:
                found.append(action.model_copy(update={"target_files": left}))
        return tuple(found)

    def is_risky(self, past: Past) -> bool:
        """Tell whether a gap is of high risk because of how it went before."""
        return past.exhausted or (past.failed and not self.only_exhausted)
