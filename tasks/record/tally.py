"""What other rules would have done to many plans, in sum."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tasks.record.backtest import Backtested, Saved, Verdict


@dataclass(slots=True)
class Tally:
    """Counts of plans by verdict, and what is saved in those that would have ended otherwise."""

    unread: int = 0  # that could not be read or decided again, beside the plans of the verdicts
    tokens: int = 0  # really used
    assumed: int = 0  # of those that end otherwise: by assumption
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)  # that would have ended a plan which came out otherwise
    saved: Saved = field(default_factory=lambda: Saved(0, 0, 0, 0))

    def add(self, found: Backtested) -> None:
        """Count a plan."""
        self.tokens += found.really.tokens
        self.verdicts[found.verdict] += 1
        if found.verdict is Verdict.SAME or not (found.would and found.saved):
            return
        self.assumed += found.assumes
        self.saved = Saved(*map(sum, zip(self.saved, found.saved, strict=True)))
        if found.would.rule:
            self.rules[found.would.rule] += 1

    @property
    def plans(self) -> int:
        """The number of plans that were decided again."""
        return self.verdicts.total()

    @property
    def changed(self) -> int:
        """The number of plans that come out otherwise."""
        return self.plans - self.verdicts[Verdict.SAME]

    def document(self) -> dict[str, Any]:
        """Lay out the sums for JSON."""
        return {
            "plans": self.plans,
            "unread": self.unread,
            "tokens_used": self.tokens,
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "assumed": self.assumed,
            "ended_by": dict(sorted(self.rules.items())),
            "saved": self.saved._asdict(),
        }
