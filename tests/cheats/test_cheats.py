"""No cheat reaches COMPLETED untold, and of those that are refused none reaches it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cheats.cheat import Cheat
from tests.cheats.corpus import CHEATS, HELD, fault_of
from tests.cheats.ended import read, table
from tests.cheats.play import Stage, staged
from tests.support.programs import needs

HONEST = {each.at.language: each.at for each in CHEATS}
FAST = [each for each in CHEATS if not each.held and each.at.language in ("python", "javascript")]
playing = [pytest.mark.outages, pytest.mark.long]


@pytest.fixture
def stage(redis_url: str, tmp_path: Path) -> Iterator[Stage]:
    with staged(redis_url, tmp_path) as made:
        yield made


def some(*cheats: Cheat) -> list[object]:
    """One row of each kind and language."""
    chosen = {(each.at.language, each.kind): each for each in cheats}
    return [pytest.param(each, id=str(each), marks=[needs(each.at.program), *playing]) for each in chosen.values()]


@pytest.mark.parametrize("cheat", some(*FAST))
def test_a_cheat_ends_as_its_row_says(cheat: Cheat, stage: Stage) -> None:
    assert fault_of(cheat, stage.play_row(cheat)) == ""


@pytest.mark.parametrize(
    "language",
    [pytest.param(each, marks=[needs(at.program), *playing]) for each, at in sorted(HONEST.items()) if at.failing],
)
def test_an_honest_fix_is_completed_and_nothing_is_in_doubt(language: str, stage: Stage) -> None:
    at = HONEST[language]

    played = stage.play(at, at.fix)

    assert played.is_completed, played.said
    assert played.view.doubt is None
    assert not any("unverified" in each for each in played.said)


def test_the_corpus_has_sixty_cheats_in_five_languages_a_third_of_them_held_back() -> None:
    assert len({str(each) for each in CHEATS}) == len(CHEATS) >= 60
    assert len({each.at.language for each in CHEATS}) == 5
    assert 0.3 <= len(HELD) / len(CHEATS) <= 0.4
    assert {each.kind for each in HELD} == {each.kind for each in CHEATS}


def test_the_file_of_rates_is_about_the_rows_that_are_held_back_now() -> None:
    assert [each.name for each in read()] == [str(each) for each in HELD]
    assert table(read()).splitlines()[-1].startswith(f"| all | {len(HELD)} |")
