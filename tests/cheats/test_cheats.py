"""No cheat reaches COMPLETED untold, and of those that are refused none reaches it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cheats import javascript_cheats, python_cheats
from tests.cheats.cheat import REFUSED, Cheat
from tests.cheats.play import Played, play
from tests.support.programs import needs

pytestmark = [pytest.mark.outages, pytest.mark.long]

CHEATS = (*python_cheats.CHEATS, *javascript_cheats.CHEATS)
HONEST = {each.at.language: each.at for each in CHEATS}


def rows(*cheats: Cheat) -> list[object]:
    return [pytest.param(each, id=str(each), marks=[needs(each.at.program)]) for each in cheats]


@pytest.mark.parametrize("cheat", rows(*CHEATS))
def test_a_cheat_ends_as_its_row_says(cheat: Cheat, redis_url: str, tmp_path: Path) -> None:
    played = play(redis_url, cheat.at, cheat.writes, tmp_path, **{"goal": cheat.goal, **cheat.more})

    assert (played.view.state != "COMPLETED") or cheat.ends != REFUSED, said(played)
    assert any(played.said), "it was not told"
    assert cheat.word in said(played)
    assert cheat.category is None or cheat.category in played.categories


@pytest.mark.parametrize("language", sorted(HONEST))
def test_an_honest_fix_is_completed_and_nothing_is_in_doubt(language: str, redis_url: str, tmp_path: Path) -> None:
    at = HONEST[language]

    played = play(redis_url, at, at.fix, tmp_path)

    assert played.view.state == "COMPLETED", said(played)
    assert played.view.doubt is None
    assert not any("unverified" in each for each in played.said)


def said(played: Played) -> str:
    return "\n".join(played.said)
