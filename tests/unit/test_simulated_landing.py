"""Plans that land beside each other and beside people, with real git: nothing of others is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.landing import World


@pytest.mark.long
@pytest.mark.outages
def test_plans_land_beside_people_who_change_the_same_files_and_lose_no_line_of_theirs(tmp_path: Path) -> None:
    world = World(tmp_path)

    counts = world.play(20)

    assert world.lost == []
    assert counts["COMPLETED"] + counts["HALTED conflict"] == 20
    assert counts["COMPLETED"] >= 16
    assert counts["landings on a target that had moved"] >= 10
    assert counts["red on top, without a conflict"] + counts["conflicts"] > 0
