"""Lays out attempts as bars over time, by controller. Pure.

Times without an attempt in a queue or in flight are drawn shorter and marked: a plan may wait days for a person.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from worker.render.time_line import AttemptTimes

LONGEST_IDLE = 0.08  # width of a longer pause, as a part of the busy time
LEAST_IDLE_MS = 2000  # a shorter pause has no mark
LEAST_WIDTH = 0.4  # percent, so that a short bar can be seen
MOST_BARS = 200  # of one controller, when its attempts are drawn together
TICKS = 4
NOBODY, UNNAMED = "nobody yet", "an unnamed controller"


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar in a lane: its place and width in percent, and its `kind`: wait, queue, unknown, or a result."""

    x: float
    width: float
    kind: str


@dataclass(frozen=True, slots=True)
class Lane:
    """An attempt with its bars, and its times in words."""

    attempt: AttemptTimes
    bars: tuple[Bar, ...]
    waited: str
    queued: str
    ran: str

    @property
    def is_unclear(self) -> bool:
        """Return whether the start was not reported, so that the times in the queue and at work cannot be separated."""
        return self.attempt.began is None and self.attempt.ended is not None

    @property
    def label(self) -> str:
        """The meaning of the bars in words, for users who cannot see them."""
        if self.is_unclear:
            return f"waited {self.waited}, in its queue or at work {self.queued}: the start was not reported"
        return f"waited {self.waited}, in its queue {self.queued}, ran {self.ran or 'for an unknown time'}"


@dataclass(frozen=True, slots=True)
class Group:
    """The attempts of one controller: one lane for each shown attempt, or bars in the common lane `together`.

    The count, the results and the running time cover all its attempts.
    """

    controller: str
    count: int
    results: tuple[tuple[str, int], ...]
    ran: str
    lanes: tuple[Lane, ...]
    together: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Gantt:
    """A drawing of attempts by controller, with ticks of the time, and with pauses that are drawn shorter.

    Each tick has its place in percent and the time since the beginning. Of all `count` attempts, those from number
    `first` to before number `last` are shown.
    """

    groups: tuple[Group, ...]
    ticks: tuple[tuple[float, str], ...]
    pauses: tuple[tuple[Bar, str], ...]
    begin: int
    end: int
    count: int
    first: int
    last: int


def lay_out(
    attempts: Sequence[AttemptTimes], now: int, *, together: bool = False, first: int = 0, most: int | None = None
) -> Gantt | None:
    """Return the drawing of attempts with one lane for each, or with `together` one lane for each controller.

    At most `most` attempts are shown, from number `first` on. If `first` is after the last attempt, the last page is
    drawn. The scale and the figures cover all attempts. Returns None without attempts.
    """
    if not attempts:
        return None
    scale = _Scale(attempts, now)
    first = clamp(first, len(attempts), most or len(attempts))
    last = len(attempts) if most is None else min(len(attempts), first + most)
    by_controller: dict[str, list[AttemptTimes]] = {}
    lanes: dict[str, list[AttemptTimes]] = {}
    for number, each in enumerate(attempts):
        by_controller.setdefault(name_of(each), []).append(each)
        if first <= number < last:
            lanes.setdefault(name_of(each), []).append(each)
    return Gantt(
        groups=tuple(
            _group(name, by_controller[name], some, scale, now, together=together)
            for name, some in sorted(lanes.items())
        ),
        ticks=scale.ticks,
        pauses=scale.pauses,
        begin=scale.begin,
        end=scale.end,
        count=len(attempts),
        first=first,
        last=last,
    )


def clamp(first: int, count: int, most: int) -> int:
    """Return `first`, or the start of the last page of `most` items if `first` is after the last of `count` items."""
    return first if first < count else max(0, count - 1) // most * most


class _Scale:
    """Maps times to a line of 100 percent, with long pauses shortened."""

    def __init__(self, attempts: Sequence[AttemptTimes], now: int) -> None:
        busy = _union([(each.queued, each.ended or now) for each in attempts])
        self.begin, self.end = min(each.free for each in attempts), busy[-1][1]
        worked = max(1, sum(end - begin for begin, end in busy))
        longest = max(LEAST_IDLE_MS, worked * LONGEST_IDLE)
        self._from, self._at = [self.begin], [0.0]  # a time, and its place; straight lines between them
        cut: list[tuple[int, int]] = []
        for before, (begin, end) in zip([self.begin, *(end for _, end in busy)], busy, strict=False):
            idle = begin - before
            self._add(begin, min(idle, longest))
            self._add(end, end - begin)
            if idle > longest:
                cut.append((before, begin))
        self._length = self._at[-1] or 1.0
        self.pauses = tuple((self.bar(begin, end, "pause"), length(end - begin)) for begin, end in cut)
        self.ticks = tuple(
            (round(100 * number / TICKS, 2), length(self._time(number / TICKS) - self.begin))
            for number in range(TICKS + 1)
        )

    def _add(self, until: int, length: float) -> None:
        self._from.append(max(until, self._from[-1]))
        self._at.append(self._at[-1] + length)

    def _time(self, share: float) -> int:
        place = share * self._length
        number = min(bisect_right(self._at, place), len(self._at) - 1)
        before, after = self._at[number - 1], self._at[number]
        part = (place - before) / (after - before) if after > before else 0
        return round(self._from[number - 1] + part * (self._from[number] - self._from[number - 1]))

    def place(self, at: int) -> float:
        """Return the place of a time, in percent."""
        number = min(bisect_right(self._from, at), len(self._from) - 1)
        begin, end = self._from[number - 1], self._from[number]
        part = min(1.0, max(0.0, (at - begin) / (end - begin))) if end > begin else 1.0
        place = self._at[number - 1] + part * (self._at[number] - self._at[number - 1])
        return round(100 * place / self._length, 2)

    def bar(self, begin: int, end: int, kind: str) -> Bar:
        """Return a bar that is wide enough to be seen and ends on the line."""
        x = self.place(begin)
        width = max(LEAST_WIDTH, self.place(end) - x)
        return Bar(round(min(x, 100 - LEAST_WIDTH), 2), round(min(width, 100 - min(x, 100 - LEAST_WIDTH)), 2), kind)


def _union(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge spans that overlap."""
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((begin, max(begin, end)))
    return joined


def _group(
    name: str,
    attempts: Sequence[AttemptTimes],
    shown: Sequence[AttemptTimes],
    scale: _Scale,
    now: int,
    *,
    together: bool,
) -> Group:
    ran = sum(each.ran_ms(now) or 0 for each in attempts)
    results = Counter(each.result for each in attempts)
    return Group(
        controller=name,
        count=len(attempts),
        results=tuple(results.most_common()),
        ran=length(ran) if ran else "",
        lanes=() if together else tuple(_lane(each, scale, now) for each in shown),
        together=tuple(_together(attempts, scale, now)) if together else (),
    )


def _lane(each: AttemptTimes, scale: _Scale, now: int) -> Lane:
    bars = []
    if each.waited_ms > 0:
        bars.append(scale.bar(each.free, each.queued, "wait"))
    until = each.ended or now
    if each.began is None:
        bars.append(scale.bar(each.queued, until, "queue" if each.ended is None else "unknown"))
    else:
        if each.began > each.queued:
            bars.append(scale.bar(each.queued, each.began, "queue"))
        bars.append(scale.bar(each.began, until, each.result or "unknown"))
    ran = each.ran_ms(now)
    return Lane(
        each, tuple(bars), length(each.waited_ms), length(each.queued_ms(now)), "" if ran is None else length(ran)
    )


def _together(attempts: Sequence[AttemptTimes], scale: _Scale, now: int) -> list[Bar]:
    """Return bars for the times at work; failures are drawn on top, the newest first, as far as there is space."""
    ran = [(each.began or each.queued, each.ended or now) for each in attempts]
    bars = [scale.bar(begin, end, "busy") for begin, end in _union(ran)[:MOST_BARS]]
    failed = [each for each in attempts if each.result in ("FAILED", "HALTED", "RETRIED") and each.ended]
    bars += [scale.bar(each.began or each.queued, each.ended or now, each.result) for each in failed[-MOST_BARS:]]
    return bars


def name_of(each: AttemptTimes) -> str:
    """Return the controller of an attempt."""
    return each.controller or (NOBODY if each.ended is None else UNNAMED)


def length(ms: int) -> str:
    """Return a duration in words: below ten seconds with a tenth, from a minute on in its two largest units."""
    if 0 < ms < 1000:
        return f"{ms} ms"
    if ms == 0:
        return "0 s"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s" if ms < 10_000 else f"{ms // 1000} s"
    for unit, size, less, part in (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if ms >= size * 1000:
            seconds = ms // 1000
            rest = seconds % size // part
            return f"{seconds // size} {unit}" + (f" {rest} {less}" if rest else "")
    return ""
