"""Keys that a gateway has just found: how many it keeps, and for how long."""

from __future__ import annotations

import asyncio
from typing import Any

from schemas.api_key import ApiKey
from worker.gateway.key_checks import KeyChecks
from worker.gateway.known_keys import LASTS_S, MOST, KnownKeys
from worker.store.api_keys import Shown

KEY = ApiKey(key_id="k", rights=())


def shown(number: int) -> Shown:
    return Shown(f"k{number}", b"digest")


def test_a_key_is_known_for_at_most_a_second_and_by_its_secret_alone() -> None:
    now = [5.0]
    known = KnownKeys(lambda: now[0])

    known.keep(shown(1), KEY, looked_at=4.5)

    assert known.find(shown(1)) == KEY
    assert known.find(Shown("k1", b"another")) is None
    assert known.find(shown(2)) is None
    now[0] = 4.5 + LASTS_S
    assert known.find(shown(1)) is None
    assert LASTS_S <= 1


def test_of_too_many_keys_the_oldest_goes_first() -> None:
    known = KnownKeys()

    for number in range(MOST):
        known.keep(shown(number), KEY, known.clock())
    known.keep(shown(0), KEY, known.clock())  # again: it is the newest
    for number in range(MOST, MOST + 10):
        known.keep(shown(number), KEY, known.clock())

    assert len(known) == MOST
    assert known.find(shown(0))
    assert [number for number in range(MOST + 10) if not known.find(shown(number))] == list(range(1, 11))


def test_a_caller_at_hand_is_not_looked_up() -> None:
    looks: list[list[str]] = []

    def look_up(asked: list[str]) -> list[Any]:
        looks.append(asked)
        return list(asked)

    async def asked() -> list[str]:
        checks = KeyChecks(look_up, lambda name: name.upper() if name == "known" else None)
        return [await checks.find(name) for name in ("known", "new")]

    assert asyncio.run(asked()) == ["KNOWN", "new"]
    assert looks == [["new"]]
