"""Which plans of a repository claim which files: what was read of it, and who waits for whom.

A file's claims stand in the order in which they came, as one text: the plans' ids with blanks between, `?` before that
of a plan which waits for those before it. A claim is given back at the end of its plan (`file_claims.lua`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

WAITS = "?"


class FileClaim(NamedTuple):
    """A plan's claim on a file; it `waits` for the claims before it."""

    plan_id: str
    waits: bool = False


def read_claims(text: str) -> list[FileClaim]:
    """Read the claims on a file."""
    return [FileClaim(word.removeprefix(WAITS), word.startswith(WAITS)) for word in text.split()]


def write_claims(claims: Iterable[FileClaim]) -> str:
    """Write the claims on a file."""
    return " ".join(WAITS * each.waits + each.plan_id for each in claims)


@dataclass(frozen=True, slots=True)
class FileClaims:
    """What was read of the claims in one repository.

    `files` has the claims of each file that somebody claims, among those that were read; `plans` the files of the plans
    that were looked at: of the plan that asks, and of those that wait, where that was asked for. `asked` are the files
    that were asked for, None for all that matter; `deep` says whether it was asked who waits for whom.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, Sequence[str]] = field(default_factory=dict)
    asked: frozenset[str] | None = field(default=None, compare=False)
    deep: bool = field(default=True, compare=False)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> FileClaims:
        """Read what `tell` told."""
        return cls(told.get("files", {}), told.get("plans", {}))

    def tell(self) -> dict[str, Any]:
        """Tell what was read, for a plan's log."""
        told = {"files": dict(self.files), "plans": {plan: list(files) for plan, files in self.plans.items()}}
        return {name: part for name, part in told.items() if part}

    def knows(self, files: Iterable[str], *, deep: bool) -> bool:
        """Whether the claims of these files were read, and as deep."""
        return self.deep >= deep and (self.asked is None or self.asked.issuperset(files))

    def of(self, file: str) -> list[FileClaim]:
        """List the claims on a file, in their order."""
        return read_claims(self.files.get(file, ""))

    def waits_for(self, plan_id: str) -> Iterator[str]:
        """Yield the plans that a plan waits for."""
        for file in self.plans.get(plan_id, ()):
            claims = self.of(file)
            own = FileClaim(plan_id, waits=True)
            if own in claims:
                yield from (each.plan_id for each in claims[: claims.index(own)])

    def reaches(self, plan_id: str, goal: str) -> bool:
        """Whether a plan waits for the plan `goal`, or for one that does, and so on."""
        seen, open_plans = {plan_id}, [plan_id]
        while open_plans:
            for each in self.waits_for(open_plans.pop()):
                if each == goal:
                    return True
                if each not in seen:
                    seen.add(each)
                    open_plans.append(each)
        return False
