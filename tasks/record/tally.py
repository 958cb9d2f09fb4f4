"""What other rules would have done to many plans, in sum: facts, assumptions and bounds, each apart."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tasks.record.backtest import FIGURES, NOTHING, Backtested, Basis, Range, Verdict


@dataclass(slots=True)
class Tally:
    """Counts of plans by verdict and basis, with the sums of their figures; its size does not grow with the plans."""

    plans: int = 0
    unread: int = 0  # that could not be read or decided again, beside those
    tokens: int = 0  # really used
    verdicts: Counter[tuple[Verdict, Basis]] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)  # that would have ended a plan which came out otherwise
    sums: dict[Basis, dict[str, Range]] = field(
        default_factory=lambda: {basis: dict.fromkeys(FIGURES, NOTHING) for basis in Basis}
    )

    def add(self, found: Backtested) -> None:
        """Count a plan."""
        self.plans += 1
        self.tokens += found.really.tokens
        self.verdicts[found.verdict, found.basis] += 1
        if found.verdict is Verdict.SAME:
            return
        if found.would and found.would.rule:
            self.rules[found.would.rule] += 1
        sums = self.sums[found.basis]
        for name in FIGURES:
            sums[name] = sums[name].plus(getattr(found, name))

    def skip(self) -> None:
        """Count a plan that could not be read or decided again."""
        self.unread += 1

    @property
    def changed(self) -> int:
        """The number of plans that come out otherwise."""
        return self.plans - self.count(Verdict.SAME)

    def count(self, verdict: Verdict) -> int:
        """Count the plans of a verdict, whatever it rests on."""
        return sum(self.verdicts[verdict, basis] for basis in Basis)

    def document(self) -> dict[str, Any]:
        """Lay out the sums for JSON."""
        return {
            "plans": self.plans,
            "unread": self.unread,
            "tokens_used": self.tokens,
            "verdicts": {
                verdict.value: {basis.value: count for basis in Basis if (count := self.verdicts[verdict, basis])}
                for verdict in Verdict
            },
            "ended_by": dict(sorted(self.rules.items())),
            "sums": {
                basis.value: {name: each._asdict() for name, each in sums.items()} for basis, sums in self.sums.items()
            },
        }
