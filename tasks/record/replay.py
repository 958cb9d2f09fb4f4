"""Replays a recorded plan, line by line, and compares it with its log and its export."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from schemas import codec
from tasks.base.errors import PlannerError
from tasks.base.policy_version import POLICY_VERSION
from tasks.plan.changeset import Changeset
from tasks.record.creation import CannotReplay, create, places_of, policy_of
from tasks.record.fold import Fold
from tasks.record.held_plan import HeldPlan
from tasks.record.lines import Line
from tasks.record.recorded_plan import RecordedPlan, kept_of

NO_SEED = (
    "The export has no seed, since the plan had not ended. Leases and the ends of pauses between attempts come from "
    "the lines."
)
NOT_WHOLE = "The plan changed while it was exported: its stored state is not compared."
LEAD = 80  # characters that are shown before that place
MOST = 400


class Result(StrEnum):
    """The result of a replay."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_REPLAYED = "not_replayed"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay, with its differences.

    `lines` is the number of lines that are equal. `line` is the version of the first different line, and `parts` are
    the differences in it. If `line` is None, `parts` are differences in the data stored at the end. `why` is the reason
    if the plan cannot be replayed.
    """

    plan_id: str
    result: Result
    state: str
    lines: int = 0
    assumed: tuple[str, ...] = ()
    line: int | None = None
    parts: tuple[Part, ...] = ()
    why: str = ""


def replay(recorded: RecordedPlan, on_change: Callable[[Changeset], None] = lambda _: None) -> Replay:
    """Decide every line of a recorded plan again; return whether all are equal, with the first difference.

    Each decision is passed to `on_change`. The function raises nothing for a faulty export, because an export is data
    from outside.
    """
    state = str(recorded.plan.get("state", ""))
    again = _Again(recorded, on_change)
    try:
        found = next(again.differences(), None)
    except CannotReplay as why:
        return Replay(recorded.plan_id, Result.NOT_REPLAYED, state, again.equal, why=str(why))
    line, parts = found or (None, ())
    result = Result.DIFFERENT if found else Result.EQUAL
    return Replay(recorded.plan_id, result, state, again.equal, tuple(again.assumed), line, tuple(parts))


class _Again:
    def __init__(self, recorded: RecordedPlan, on_change: Callable[[Changeset], None]) -> None:
        self.recorded = recorded
        self.on_change = on_change
        self.equal = 0
        self.assumed: list[str] = []

    def differences(self) -> Iterator[tuple[int | None, Sequence[Part]]]:
        """Yield the version of the first different line and its differences; None in place of a version at the end.

        Raises CannotReplay.
        """
        lines = self._read()
        first = next(lines, None)
        if first is None:
            raise CannotReplay("it has no log")
        self._check_rules(first)
        plan = HeldPlan(self.recorded.plan_id, *places_of(self.recorded), policy=policy_of(self.recorded))
        creation = self._begin(plan, first)
        fold, change = self._go_on(plan, creation)
        yield from self._compare(change)
        for line in lines:
            try:
                if "born" in line:  # it waited for a drafter, or its creation was begun again
                    fold.pass_timers(line["version"] - 1)
                    creation = self._begin(plan, line)
                elif line["in"]:  # a creation has inputs only in its first line
                    creation.clear()
                if creation:
                    fold, change = self._go_on(plan, creation)
                else:
                    change = fold.fold(line)
            except Exception as error:  # a file can have any content
                yield line["version"], [Part("cannot be decided again", "", _named(error))]
                return
            yield from self._compare(change)
        fold.pass_timers(self.recorded.plan["version"])
        if parts := self._differing_end(plan):
            yield None, parts

    def _read(self) -> Iterator[Line]:
        try:
            yield from self.recorded.read_lines()
        except (ValueError, RecursionError, LookupError) as error:
            raise CannotReplay(f"the line behind the first {self.equal} cannot be read: {error}") from error

    def _begin(self, plan: HeldPlan, line: Line) -> deque[Changeset]:
        """Return the commits of the plan's creation that begins with `line`; each commit wrote one line."""
        before = plan.record.log if plan.fields else None
        try:
            return deque(create(self.recorded, line, plan.policy, before))
        except CannotReplay:
            raise
        except Exception as error:
            raise CannotReplay(f"its creation cannot be decided again: {_named(error)}") from error

    def _go_on(self, plan: HeldPlan, creation: deque[Changeset]) -> tuple[Fold, Changeset]:
        """Make the next commit of a creation; return the fold for later lines, and the commit.

        A creation may have been interrupted by another commit and begun again. So the log shows how many commits were
        made.
        """
        change = creation.popleft()
        plan.commit(change)
        return Fold(plan, has_seed=self.recorded.seed is not None), change

    def _compare(self, change: Changeset) -> Iterator[tuple[int | None, Sequence[Part]]]:
        self.on_change(change)
        raw = self.recorded.lines[self.equal] if self.equal < len(self.recorded.lines) else b"{}"
        if change.log != raw:
            was, now = codec.loads(raw), codec.loads(change.log or b"{}")
            parts = [*differing_parts(was, now)]
            if parts or was != now:
                yield change.expected + 1, parts or [Part("bytes", raw.decode(), change.log.decode())]
        self.equal += 1

    def _check_rules(self, first: Line) -> None:
        """Raise CannotReplay if this release does not know the rules of the plan."""
        version = self.recorded.plan["head"].get("policy_version")
        if type(version) is not int or version > POLICY_VERSION:
            whose = f"release {first['by']}, which made it" if "by" in first else "the release that made it"
            raise CannotReplay(
                f"it goes on under policy version {version}, and this release knows those up to {POLICY_VERSION}: "
                f"replay it with {whose}"
            )

    def _differing_end(self, plan: HeldPlan) -> list[Part]:
        if not self.recorded.is_whole:
            self.assumed.append(NOT_WHOLE)
            return []
        left_out = set()
        if self.recorded.seed is None:
            self.assumed.append(NO_SEED)
            left_out = {"live.backoffs"}
        try:
            was, now = self.recorded.kept(), kept_of(plan)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            return [Part("what is kept", "", f"it cannot be read: {_named(error)}")]
        return [part for part in differing_parts(was, now) if part.name not in left_out]


def _named(error: Exception) -> str:
    return str(error) if isinstance(error, PlannerError) else f"{type(error).__name__}: {error}"


def told(replay: Replay) -> Mapping[str, Any]:
    """Return the result of a replay as JSON."""
    return {
        "plan_id": replay.plan_id,
        "result": replay.result.value,
        "state": replay.state,
        "lines": replay.lines,
        "assumed": list(replay.assumed),
        **({"line": replay.line, "differs": [part._asdict() for part in replay.parts]} if replay.parts else {}),
        **({"why": replay.why} if replay.why else {}),
    }


class Part(NamedTuple):
    """One difference between two records: its name, the old and the new text; a text is empty if its part is absent."""

    name: str
    was: str
    now: str


def differing_parts(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Part]:
    """Yield each part that differs in at least one byte; both texts begin shortly before the first difference."""
    for name in {**was, **now}:
        left, right = _text(was, name), _text(now, name)
        if left != right:
            start = next((at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other), 0)
            start = max(0, start - LEAD)
            yield Part(name, cut(left[start:]), cut(right[start:]))


def _text(parts: Mapping[str, Any], name: str) -> str:
    if name not in parts:
        return ""
    value = parts[name]
    return value if isinstance(value, str) else codec.dumps(value).decode()


def cut(text: str) -> str:
    """Return the first MOST characters of a text, with a mark if more follow."""
    return text if len(text) <= MOST else text[:MOST] + " ..."
