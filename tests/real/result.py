"""What became of one fix, and how it is printed: in lines, as JSON, as a row of a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

HEAD = (
    "| fix | language | `--file` | failing tests | state | right | agent runs | wrong attempts | tokens | seconds |\n"
    "|---|---|---|--:|---|---|--:|--:|--:|--:|"
)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the agent, and what it did."""

    step: str
    attempt: int
    mode: str
    did: str
    tokens: int

    @property
    def is_wrong(self) -> bool:
        """Whether it was one of the attempts that go wrong on purpose."""
        return self.did.startswith("wrong")


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one fix; `right` is None where it could not be played, for which `reasons` has the reason."""

    title: str
    language: str
    globs: tuple[str, ...]
    commit: str
    state: str = "not played"
    right: bool | None = None
    equal: bool = False  # whether the sources are those of the fix
    failing: int = 0  # tests that the fix mends
    red: tuple[str, ...] = ()  # tests that fail in the plan's tree, and do not with the fix
    runs: tuple[Run, ...] = ()
    steps: tuple[str, ...] = ()  # with their states
    tokens: int = 0
    seconds: float = 0.0
    reasons: tuple[str, ...] = ()
    plan_id: str = ""

    @property
    def wrong(self) -> int:
        """How many attempts went wrong on purpose."""
        return sum(run.is_wrong for run in self.runs)

    @property
    def useful(self) -> int:
        """How often the agent was run beside that."""
        return len(self.runs) - self.wrong

    @property
    def is_false(self) -> bool:
        """Whether the planner says that the plan is COMPLETED although it is not right."""
        return self.state == "COMPLETED" and not self.right

    def as_json(self) -> dict[str, Any]:
        """Return all of it."""
        return {**asdict(self), "wrong": self.wrong, "useful_runs": self.useful, "false_completed": self.is_false}

    def lines(self) -> str:
        """Lay it out for a person."""
        if self.right is None:
            return "\n".join([f"{self.title}: not played", *(f"  {reason}" for reason in self.reasons)])
        tree = "its sources are those of the fix" if self.equal else "its sources are not those of the fix"
        by_step = Counter((run.step, run.did) for run in self.runs)
        return "\n".join(
            [
                f"{self.title} ({self.language}, {' '.join(self.globs)}): {self.state}, {_right(self)}, {tree}",
                f"  {self.failing} failing tests; {self.useful} agent runs and {self.wrong} wrong attempts, "
                f"{self.tokens} tokens, {self.seconds:.0f} s",
                *(
                    f"  {step}: {did}{f' ({count} times)' if count > 1 else ''}"
                    for (step, did), count in by_step.items()
                ),
                *(f"  red: {test}" for test in self.red[:5]),
                *(f"  {reason}" for reason in self.reasons),
            ]
        )

    def row(self) -> str:
        """Lay it out as a row of the table."""
        globs = " ".join(f"`{glob}`" for glob in self.globs)
        runs = "-" if self.right is None else str(self.useful)
        cells = (self.title, self.language, globs, self.failing, self.state, _right(self), runs, self.wrong)
        return f"| {' | '.join(map(str, cells))} | {self.tokens} | {self.seconds:.0f} |"


def _right(result: Result) -> str:
    return {True: "yes", False: "no", None: "-"}[result.right]


def table(results: Sequence[Result]) -> str:
    """Lay out a row for each fix, and the sum; reasons stand below."""
    played = [each for each in results if each.right is not None]
    lines = [HEAD, *(each.row() for each in results)]
    if played:
        good = sum(each.state == "COMPLETED" and each.right is True for each in played)
        false = sum(each.is_false for each in played)
        lines.append(
            f"\n{good} of {len(results)} COMPLETED and right, {false} falsely COMPLETED, "
            f"{mean(each.useful for each in played):.1f} agent runs a fix besides wrong attempts, "
            f"{mean(each.tokens for each in played) / 1000:.0f} thousand tokens, "
            f"{mean(each.seconds for each in played):.0f} s."
        )
    lines += [f"- {each.title}: {reason}" for each in results for reason in each.reasons]
    return "\n".join(lines)
