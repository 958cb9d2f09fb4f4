"""Reads what `planner backtest --json` printed: a line for each plan, and at last one with the sum. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas import codec
from schemas.times import milliseconds
from tasks.record.backtest import Backtested, Basis, Range, Standing, Verdict
from tasks.record.tally import Tally

MOST_ERRORS = 20
MOST_READ = 5000  # lines: many more than a form takes of those that the command prints
MOST_ROWS = 500  # plans that would have come out otherwise


class _Read(BaseModel):
    """Something that the command wrote, of this release or a later one."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Span(_Read):
    """The least and the most that a figure can be."""

    least: int | None
    most: int | None

    @property
    def range(self) -> Range:
        """It, as the tally takes it."""
        return Range(self.least, self.most)


class End(_Read):
    """How a plan stands."""

    state: str = Field(max_length=40)
    rule: str | None = Field(max_length=100)
    tokens: int
    done: int
    at: datetime

    @property
    def standing(self) -> Standing:
        """It, as the tally takes it."""
        return Standing(self.state, self.rule, self.tokens, self.done, milliseconds(self.at))


class Line(_Read):
    """A plan that was backtested."""

    source: str = ""
    plan_id: str = Field(max_length=64)
    kind: str = Field(max_length=40)
    verdict: Verdict
    basis: Basis
    line: int | None
    really: End
    would: End | None
    tokens_saved: Span
    ms_saved: Span
    successes_lost: Span
    steps_lost: Span

    @property
    def backtested(self) -> Backtested:
        """It, as the tally takes it."""
        return Backtested(
            self.plan_id,
            self.kind,
            self.verdict,
            self.basis,
            self.really.standing,
            self.would.standing if self.would else None,
            self.line,
            **{
                name: getattr(self, name).range for name in ("tokens_saved", "ms_saved", "successes_lost", "steps_lost")
            },
        )


@dataclass(slots=True)
class Backtest:
    """What was read: plans that come out otherwise, those that could not be backtested and why, the sum, and errors."""

    rows: list[Backtested] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    errors: list[str] = field(default_factory=list)
    left_out: int = 0  # rows that are only counted
    is_whole: bool = False  # whether the line with the sum was there
    is_cut: bool = False  # whether lines were left unread
    told_plans: int | None = None  # what that line counts


def read(text: str) -> Backtest:
    """Read the lines; what is wrong with one of them is told with its number, and the others count.

    It reads no further where more errors are certain than are told, and no more than MOST_READ lines.
    """
    found = Backtest()
    filled = ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())
    for count, (number, line) in enumerate(filled):
        if count == MOST_READ:
            found.errors.append(f"Line {number} and those behind it were not read: at most {MOST_READ:,} are.")
            found.is_cut = True
            break
        if (why := _take(found, line)) is None:
            continue
        if len(found.errors) == MOST_ERRORS:
            found.errors.append(f"There are more lines with errors. Nothing behind line {number} was read.")
            found.is_cut = True
            break
        found.errors.append(f"Line {number} {why}")
    if not found.tally.plans and not found.unread and not found.errors:
        found.errors.append("There is nothing in it: paste what `planner backtest --policy FILE --json` printed.")
    return found


def _take(found: Backtest, line: str) -> str | None:
    """Take a line; says what is wrong with it."""
    try:
        said: Any = codec.loads(line.encode())
    except codec.DecodeError as error:
        return f"is no JSON: {error}."
    if not isinstance(said, dict):
        return "is no JSON object."
    if isinstance(said.get("sum"), dict):
        plans = said["sum"].get("plans")
        found.is_whole, found.told_plans = True, plans if isinstance(plans, int) else None
    elif isinstance(said.get("why"), str):
        found.tally.skip()
        found.unread.append((str(said.get("source", ""))[:200], said["why"][:1000]))
    else:
        return _take_plan(found, said)
    return None


def _take_plan(found: Backtest, said: dict[str, Any]) -> str | None:
    try:
        read_line = Line.model_validate(said).backtested
    except ValidationError as error:
        return f"is no line of a backtest: {'; '.join(_faults(error))}."
    except OverflowError:
        return "has a number that is too large."
    found.tally.add(read_line)
    if read_line.verdict is not Verdict.SAME:
        if len(found.rows) < MOST_ROWS:
            found.rows.append(read_line)
        else:
            found.left_out += 1
    return None


def _faults(error: ValidationError) -> Iterator[str]:
    for each in error.errors()[:3]:
        place = ".".join(map(str, each["loc"])) or "the line"
        yield f"{place}: {'is missing' if each['type'] == 'missing' else each['msg']}"
