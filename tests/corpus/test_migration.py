"""Plans of every kind that are begun under older rules are migrated on their way, go on to an end, and replay alike."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

import pytest

from schemas import codec
from tasks.base.policy_version import POLICY_VERSION
from tasks.handlers import goals
from tasks.record.recorded_plan import RecordedPlan
from tasks.record.replay import Result, replay
from tests.corpus import record
from tests.corpus.fleet import CREWS, Fleet
from tests.corpus.play import Player, Scene
from tests.support.commands import an_order
from tests.support.plans import PLAN
from tests.support.replay import export_of

EVERY = 25  # recorded plan is taken
SUCCESS = {"success": True, "diff_hash": "whatever"}


def begin(scene: Scene, version: int) -> Player:
    """Make a plan of a scene as a worker of a policy version did."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(goals, "PlanSeed", partial(goals.PlanSeed, policy_version=version))
        return Player(scene)


def command(player: Player, name: str, value: Any = None) -> None:
    player.play(["command", an_order(name, None, value, order_id=f"m-{name}").model_dump(mode="json")])


def migrate(player: Player) -> bool:
    """Pause the plan, have what is in flight end, migrate it and let it go on; False if it ended."""
    command(player, "pause")
    player.play(["report", [[step, one.attempt, one.lease, SUCCESS] for step, one in player.active.items()]])
    if player.is_over or player.active:
        return False
    command(player, "migrate", {"policy_version": POLICY_VERSION})
    assert player.record.head.policy_version == POLICY_VERSION
    command(player, "resume")
    return True


def test_plans_of_every_kind_are_migrated_on_their_way() -> None:
    kinds: dict[str, int] = {}
    for number, each in enumerate(islice(record.read(), 0, None, EVERY)):
        scene, turns = each["scene"], 0
        crew = next(crew for name, crew in reversed(CREWS.items()) if f"-{name}" in scene["name"])
        player = begin(scene, 1 + number % (POLICY_VERSION - 1))
        kind = scene["goal"].get("kind", "task")
        fleet, is_migrated = Fleet(player, kind, crew, scene["name"]), False
        while not player.is_over and turns < record.MOST_INPUTS:
            turns += 1
            if not is_migrated and turns > number % 3 and player.state in ("READY", "EXECUTING"):
                is_migrated = migrate(player)
                kinds[kind] = kinds.get(kind, 0) + is_migrated
            else:
                player.play(codec.loads(codec.dumps(fleet.choose())))
        if player.nothing is None:
            found = replay(RecordedPlan.read(export_of(player.store.held(PLAN))))
            assert (scene["name"], found.result, found.parts) == (scene["name"], Result.EQUAL, ())
            assert player.is_over, scene["name"]

    assert len(kinds) == 5
    assert min(kinds.values()) > 1
