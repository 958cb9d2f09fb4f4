"""What a strategy keeps is taken by workers of the release before, and what these make of it is by those of today."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from schemas.base import GoalKind
from schemas.goal import Goal
from tasks.plan import strategy_record
from tasks.rules.strategy import End, Expansion, LivePlan
from tasks.strategies.registry import strategy_of
from tasks.toolchain.catalogue import CATALOGUE
from tests.corpus import record
from tests.support import older_strategies, versions
from tests.support.plans import a_step

pytestmark = pytest.mark.outages

EVERY = 3  # recorded plan is taken
STEP = a_step("s", files=["src/auth.py"]).model_dump(mode="json")
Kept = dict[str, Any]


def kept_by_recorded_plans(kind: str, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Play recorded plans of a kind; returns all that their strategy has ever kept, as it is stored."""
    found: dict[bytes, bool] = {}
    encode = strategy_record.encode

    def noting(kind: str, kept: Kept) -> bytes:
        raw = encode(kind, kept)
        found[raw] = True
        return raw

    monkeypatch.setattr(strategy_record, "encode", noting)
    of_kind = (plan for plan in record.read() if plan["scene"]["goal"].get("kind", "task") == kind)
    for plan in islice(of_kind, 0, None, EVERY):
        record.again(plan)
    return list(found)


def decisions(kind: str, kept: Kept) -> Iterator[Any]:
    """Have today's strategy decide whatever may come, as `older_strategies` does."""
    strategy = strategy_of(GoalKind(kind))
    live = LivePlan(Goal.model_validate(kept["goal"]), kept["state"], kept["document"], 0)
    yield strategy.stuck(live, CATALOGUE)
    for value in older_strategies.ANSWERS:
        yield strategy.answer(live, value, CATALOGUE)
    for step_id in kept["ids"]:
        facts = {**STEP, "step_id": step_id}
        strategy.input_for(live, facts)
        for output in older_strategies.OUTPUTS:
            refused = strategy.refusal(live, facts, output)
            yield strategy.advance(live, End(step_id, facts, "FAILED" if refused else "DONE", output), CATALOGUE)


@pytest.mark.parametrize("kind", [kind.value for kind in GoalKind])
def test_what_is_kept_is_decided_by_workers_of_the_release_before_and_again_by_these(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = kept_by_recorded_plans(kind, monkeypatch)
    sources = versions.older_sources(tmp_path / "older")

    asked = b"\n".join(codec.dumps([kind, codec.loads(raw), STEP]) for raw in written)
    ran = subprocess.run(
        [sys.executable, older_strategies.__file__],
        input=asked,
        cwd=sources,
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        check=True,
    )

    answered = [codec.loads(line) for line in ran.stdout.splitlines()]
    assert "\n".join(wrong for _, _, wrong in answered if wrong) == ""
    assert len(written) > 4
    made = [found for _, kept, _ in answered for found in decisions(kind, strategy_record.decode(codec.dumps(kept)))]
    assert sum(isinstance(each, Expansion) for each in made) >= len(answered) > 2
