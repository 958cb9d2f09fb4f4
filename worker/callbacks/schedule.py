"""The times of a callback's tries, and the meaning of answers; pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime

MINUTE, HOUR = 60, 3600
# Before each try, seconds after the one before it had failed.
WAITS_S = (0, 5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR)
JITTER = 0.2  # maximum extra part of a wait: so receivers are not called by all at once after an outage
MOST_WAIT_S = 24 * HOUR  # limit for a receiver's wish
GONE = 410
BUSY = (429, 503)
FINAL_FOR_FORGES = (400, 422)  # the same status of the same commit is refused again

DELIVERED, FAILED, DISABLED = "delivered", "failed", "disabled"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one try: an HTTP status, or 0 with the error; `retry_after` is the receiver's header."""

    status: int
    error: str = ""
    retry_after: str = ""


@dataclass(frozen=True, slots=True)
class Next:
    """The consequence of a try: a final state or the seconds to the next try, and whether to disable the endpoint."""

    ended: str = ""
    wait_s: float = 0.0
    disables: bool = False


def follow(answer: Answer, tries: int, chance: float, now: float, *, is_forge: bool = False) -> Next:
    """Return the consequence of try number `tries`, which had the result `answer`.

    `chance` from 0 to 1 varies the time until the next try; `now` is in seconds.
    """
    if 200 <= answer.status < 300:
        return Next(DELIVERED)
    if answer.status == GONE and not is_forge:
        return Next(FAILED, disables=True)
    if tries >= len(WAITS_S) or (is_forge and answer.status in FINAL_FOR_FORGES):
        return Next(FAILED)
    asked = _asked_s(answer.retry_after, now) if answer.status in BUSY else 0.0
    wait = max(float(WAITS_S[tries]), min(asked, MOST_WAIT_S))
    return Next(wait_s=wait * (1 + JITTER * chance))


def _asked_s(text: str, now: float) -> float:
    """Return the seconds in Retry-After, a number or a date; 0 for any other text."""
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # the latter for a year or a zone that is too large
        return 0.0
    return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now)
