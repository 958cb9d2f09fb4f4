"""The position of a reader in the events of all partitions, as a text that only this program reads."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from hashlib import blake2b
from typing import NamedTuple

from tasks.base.errors import PlannerError
from worker.store.deployment import MOST

Place = tuple[int, int]  # an entry's id: milliseconds and a number

START: Place = (0, 0)
NO_EPOCH = bytes(8)  # of data that no worker has named yet
LAYOUT = b"\x01"
CHECK_BYTES = 8
MOST_CHARS = 6000
LARGEST = 2**64 - 1


class WrongPosition(PlannerError):
    """A text is no position that was given out."""


class Position(NamedTuple):
    """The place of the last read event in each partition; `epoch` identifies the data set."""

    epoch: bytes
    places: tuple[Place, ...]

    def encode(self) -> str:
        """Return the position as letters, digits, `-` and `_`."""
        body = LAYOUT + self.epoch + b"".join(_varint(part) for place in self.places for part in place)
        return urlsafe_b64encode(body + _check(body)).rstrip(b"=").decode()

    def moved(self, partition: int, place: Place) -> Position:
        """Return a copy of the position with `place` as the place in one partition."""
        return Position(self.epoch, (*self.places[:partition], place, *self.places[partition + 1 :]))


def decode(text: str) -> Position:
    """Return the position in a text of `encode`. Raises WrongPosition for any other text."""
    if len(text) > MOST_CHARS or not text.isascii():
        raise WrongPosition
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        body, check = raw[:-CHECK_BYTES], raw[-CHECK_BYTES:]
        numbers = list(_numbers(body[len(LAYOUT) + len(NO_EPOCH) :]))
        found = Position(
            body[len(LAYOUT) : len(LAYOUT) + len(NO_EPOCH)], tuple(zip(numbers[::2], numbers[1::2], strict=True))
        )
    except ValueError as error:
        raise WrongPosition from error
    # The text must equal the position's own encoding: each position has exactly one text.
    if check != _check(body) or not 1 <= len(found.places) <= MOST or found.encode() != text:
        raise WrongPosition
    return found


def place_of(entry: str | bytes) -> Place:
    """Return the place of a stream entry: the two numbers in its id."""
    ms, _, number = (entry.decode() if isinstance(entry, bytes) else entry).partition("-")
    return int(ms), int(number or 0)


def entry_of(place: Place) -> str:
    """Return the id of the stream entry at a place."""
    return f"{place[0]}-{place[1]}"


def _check(body: bytes) -> bytes:
    return blake2b(body, digest_size=CHECK_BYTES, person=b"planner events").digest()


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _numbers(raw: bytes) -> Iterator[int]:
    """Yield the numbers that are encoded in `raw`. Raises ValueError if one is too large or incomplete."""
    number = shift = 0
    for byte in raw:
        number |= (byte & 0x7F) << shift
        shift += 7
        if number > LARGEST:
            raise ValueError(number)
        if not byte & 0x80:
            yield number
            number = shift = 0
    if shift:
        raise ValueError(raw)
