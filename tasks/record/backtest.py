"""Decides a recorded plan again under other rules: it replays the log under the plan's own rules and under the others.

While both decide the same, the log's inputs are valid under the other rules, too. After the first difference, only an
end of the plan is known, since later inputs would not exist. If the plan would have gone on, the result is unknown. No
outcome is invented.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Any, NamedTuple

from schemas import codec
from schemas.base import PlanState, StepState
from schemas.stored import Attempt
from schemas.times import rfc3339
from tasks.base.errors import PlannerError
from tasks.base.policy import Policy
from tasks.plan.changeset import Changeset
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.policy.waits import wall_clock_ends
from tasks.record.creation import CannotReplay, create, places_of, policy_of
from tasks.record.fold import Fold
from tasks.record.held_plan import HeldPlan
from tasks.record.lines import Line, read_line
from tasks.record.recorded_plan import RecordedPlan


class Verdict(StrEnum):
    """The effect that the other rules would have had on a plan."""

    SAME = "same"
    ENDED_EARLIER = "ended_earlier"
    ENDED_OTHERWISE = "ended_otherwise"  # at the same line, by another rule or in another state
    GOES_ON = "goes_on"  # beyond its real end
    DECIDED_OTHERWISE = "decided_otherwise"  # a step is retried, revised, asked about or given up, unlike in reality


class Standing(NamedTuple):
    """The state of a plan at a time: its state, the rule that ended it, tokens, done steps, and the time (ms)."""

    state: str
    rule: str | None
    tokens: int
    done: int
    at: int

    def document(self) -> dict[str, Any]:
        """Return the values as JSON, with the time as in RFC 3339."""
        return {**self._asdict(), "at": rfc3339(self.at)}


class Saved(NamedTuple):
    """The tokens and time that other rules save, and the successes and steps that they lose.

    A negative saving is additional use; a negative loss is a gain.
    """

    tokens: int
    ms: int
    successes_lost: int
    steps_lost: int


@dataclass(frozen=True, slots=True)
class Backtested:
    """The real end of a plan, and its end under the other rules; `would` is None if that end is unknown.

    `line` is the version of the first log line with a different decision, None if all are equal. `assumes` is true if
    an attempt would have had lower limits: the result then assumes that the attempt ends in the same way.
    """

    plan_id: str
    kind: str
    verdict: Verdict
    assumes: bool
    really: Standing
    would: Standing | None
    line: int | None = None

    @property
    def saved(self) -> Saved | None:
        """The savings by the other rules; None if the plan's end under them is unknown."""
        really, would = self.really, self.would
        if would is None:
            return None
        lost = (really.state == PlanState.COMPLETED) - (would.state == PlanState.COMPLETED)
        return Saved(really.tokens - would.tokens, really.at - would.at, lost, really.done - would.done)

    def document(self) -> dict[str, Any]:
        """Return the result as JSON, with times as in RFC 3339."""
        return {
            "plan_id": self.plan_id,
            "kind": self.kind,
            "verdict": self.verdict.value,
            "assumes": self.assumes,
            "line": self.line,
            "really": self.really.document(),
            "would": self.would.document() if self.would else None,
            "saved": self.saved._asdict() if self.saved else None,
        }


@dataclass(slots=True)
class _Side:
    """A plan under one set of rules, and the time of its last decision."""

    fold: Fold
    at: int

    def take(self, line: Line) -> Changeset:
        """Decide a line of the log, commit, and return the changeset."""
        change = self.fold.fold(line)
        self.at = change.now
        return change

    def go_on(self, change: Changeset) -> None:
        """Make the commits that follow a decision because work is left over; they need no input."""
        while change.more and change.changed:
            change = self.take({"version": self.fold.plan.version + 1, "now": self.at, "in": [], "moves": []})

    @property
    def has_ended(self) -> bool:
        return self.fold.record.state in PLAN_ENDS

    def standing(self) -> Standing:
        plan, halt = self.fold.record, self.fold.plan.fields.get("halt")
        return Standing(
            plan.state,
            codec.loads(halt)["rule"] if halt else None,
            plan.spent["tokens"],
            plan.counts.get(StepState.DONE.value, 0),
            plan.times.get("ended", self.at),
        )


def backtest_recorded(recorded: RecordedPlan, policy: Policy) -> Backtested:
    """Return the effect that `policy` would have had on a recorded plan.

    Raises CannotReplay for any fault of the export, because an export is data from outside.
    """
    try:
        return _backtest(recorded, policy)
    except CannotReplay:
        raise
    except PlannerError as error:
        raise CannotReplay(f"it cannot be decided again: {error}") from error
    except Exception as error:  # a file can have any content
        raise CannotReplay(f"it cannot be decided again: {type(error).__name__}: {error}") from error


def _backtest(recorded: RecordedPlan, policy: Policy) -> Backtested:
    lines = map(read_line, recorded.lines[recorded.newest_birth() :])
    first = next(lines, None)
    if first is None:
        raise CannotReplay("it has no log")
    plans = [HeldPlan(recorded.plan_id, *places_of(recorded), policy=each) for each in (policy_of(recorded), policy)]
    really, would = _begin(recorded, plans, first, lines)
    return backtest(lines, really, would)


def _begin(recorded: RecordedPlan, plans: Sequence[HeldPlan], line: Line, behind: Iterator[Line]) -> Iterator[Fold]:
    """Yield the created plans, each under its own policy.

    The creation is decided again from `line` and compared with the lines that it wrote. Raises CannotReplay if they
    differ.
    """
    for number, plan in enumerate(plans):
        for change in create(recorded, line, plan.policy):
            plan.commit(change)
        if not number:
            for made, told in zip(plan.log, chain([line], behind), strict=False):
                _check(codec.loads(made)["moves"], told)
        yield Fold(plan, has_seed=recorded.seed is not None)


def _check(moves: list[Any], line: Line) -> None:
    if moves != [list(move) for move in line["moves"]]:
        raise CannotReplay(f"line {line['version']} is decided otherwise than it was")


def backtest(lines: Iterable[Line], really: Fold, would: Fold) -> Backtested:
    """Return the effect of other rules: replay the lines after the creation under both rules until a decision differs.

    `really` is the plan under its own rules, `would` the plan under the others. Raises CannotReplay if the plan's own
    rules do not give the decisions in the log.
    """
    created = really.record.times["created"]
    fact, other = _Side(really, created), _Side(would, created)
    # The line of the first difference.
    parted = None if _started(really) == _started(would) else really.plan.version
    really_ended, told_less = False, _allowed(really) != _allowed(would)
    for line in lines:
        if parted is None and _is_out_of_time(other, line, wall_clock_ends(really.record)):
            parted = line["version"]
        change = fact.take(line)
        _check(_told(change).get("moves", []), line)
        if parted is None:
            counterpart = other.take(line)
            if _decision(change) != _decision(counterpart):
                parted, really_ended = line["version"], change.ends
                other.go_on(counterpart)
            else:
                told_less |= bool(change.dispatches) and _allowed(really) != _allowed(would)
    return _judge(fact, other, parted, really_ended=really_ended, told_less=told_less)


def _is_out_of_time(other: _Side, line: Line, really_ends: int | None) -> bool:
    """End the plan under the other rules if its wall clock runs out before `line` and that of the real plan does not.

    Return whether the plan ended. A line after an outage contains the time that was given back, so it ends nothing.
    """
    if any(said[0] == "outage" for said in line["in"]):
        return False
    plan = other.fold.record
    ends = None if plan.state in PLAN_ENDS else wall_clock_ends(plan)
    if ends is None or ends >= min(line["now"], really_ends or line["now"]):
        return False
    other.take({"version": plan.version + 1, "now": ends, "in": [["wall clock over", ends]], "moves": []})
    return True


def _started(fold: Fold) -> list[Any]:
    """Return the decisions of a plan's creation for comparison: its state, its size, its attempts and its waits."""
    plan, most = fold.record, fold.record.limits["max_steps"]
    is_large = most is not None and len(fold.plan.status) > most  # its draft would differ, or it would be rejected
    return [plan.state, is_large, fold.plan.active.keys(), plan.waits.keys()]


def _allowed(fold: Fold) -> list[Any]:
    """Return the limits of each attempt in flight, for comparison."""
    found: list[Any] = []
    for step, raw in fold.plan.active.items():
        attempt, risk = Attempt.decode(raw), (fold.plan.spec_of(step) or {})["risk_level"]
        lines = fold.plan.policy.attempts[risk].max_diff_lines
        found.append([step, attempt.tokens, attempt.patch_cycles, lines])
    return found


def _told(change: Changeset) -> dict[str, Any]:
    return dict(codec.loads(change.log)) if change.log else {}


def _decision(change: Changeset) -> list[Any]:
    """Return the parts of a decision to compare: moves, revisions, started attempts, and the rule of a halt."""
    told = _told(change)
    started = [(one.step_id, one.attempt.attempt) for one in change.dispatches]
    rule = codec.loads(change.fields["halt"])["rule"] if "halt" in change.fields else None
    revisions = [(each.get("step_id"), each["rule"], each["diff"]) for each in told.get("revisions", ())]
    return [told.get("moves"), revisions, started, rule]


def _judge(fact: _Side, other: _Side, parted: int | None, *, really_ended: bool, told_less: bool) -> Backtested:
    really, about = fact.standing(), (fact.fold.plan.plan_id, fact.fold.record.head.kind)
    if parted is None:
        return Backtested(*about, Verdict.SAME, told_less, really, really)
    if other.has_ended:
        verdict = Verdict.ENDED_OTHERWISE if really_ended else Verdict.ENDED_EARLIER
        return Backtested(*about, verdict, told_less, really, other.standing(), parted)
    verdict = Verdict.GOES_ON if really_ended else Verdict.DECIDED_OTHERWISE
    return Backtested(*about, verdict, told_less, really, None, parted)


@dataclass(slots=True)
class Tally:
    """The number of plans with each verdict, and the savings in plans that would have ended differently."""

    unread: int = 0  # not readable or not decidable, in addition to the plans of the verdicts
    tokens: int = 0  # really used
    assumed: int = 0  # plans with another end that rests on an assumption
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)  # rules that would have ended a plan with another result
    saved: Saved = field(default_factory=lambda: Saved(0, 0, 0, 0))

    def add(self, found: Backtested) -> None:
        """Add the result of a plan."""
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
        """The number of plans with another result."""
        return self.plans - self.verdicts[Verdict.SAME]

    def document(self) -> dict[str, Any]:
        """Return the sums as JSON."""
        return {
            "plans": self.plans,
            "unread": self.unread,
            "tokens_used": self.tokens,
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "assumed": self.assumed,
            "ended_by": dict(sorted(self.rules.items())),
            "saved": self.saved._asdict(),
        }
