"""Steps that reached no controller are handed back, also while one server of a cluster is away."""

from __future__ import annotations

from typing import Any

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NoConnection

from worker.store import claims
from worker.store.claims import SpecEntry


def entry(step_id: str) -> SpecEntry:
    return SpecEntry(
        stream="planner:{0}:steps:default",
        entry_id="1-1",
        data=b"{}",
        plan_id="plan_00-1",
        step_id=step_id,
        attempt=1,
        lease="lease",
        lease_key=f"planner:{{0}}:lease:plan_00-1:{step_id}",
        reply_to="planner:{0}:outcomes",
    )


@pytest.mark.parametrize("several", [True, False])
def test_what_a_server_that_is_away_does_not_take_is_left(monkeypatch: pytest.MonkeyPatch, *, several: bool) -> None:
    replies: list[Any] = [1, NoConnection("away"), 1]
    monkeypatch.setattr(claims, "run", lambda *_: replies)
    monkeypatch.setattr(claims, "has_several", lambda _: several)
    steps = [(entry(name), name) for name in ("a", "b", "c")]

    if several:
        assert claims.hand_back(Redis(), steps) == [steps[1]]
    else:
        with pytest.raises(NoConnection):
            claims.hand_back(Redis(), steps)
