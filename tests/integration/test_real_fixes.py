"""`python -m tests.real` on a made-up project: what its agents do is seen by the planner and judged by its tests."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.real.agent import CLAIMS, FIX, NOTHING, TESTS
from tests.real.fix import CannotPlay, Fix
from tests.real.play import Behaviour, play_fix
from tests.support.committing import commit, git

pytestmark = [pytest.mark.outages, pytest.mark.long]

FILES: dict[str, str | None] = {
    "src/shop/__init__.py": "",
    "src/shop/prices.py": "def net(amount, tax):\n    return amount + tax\n",
    "src/shop/rounding.py": "def cents(amount):\n    return int(amount * 100)\n",
    "tests/test_shop.py": "from shop.prices import net\n\n\ndef test_net():\n    assert net(0, 0) == 0\n",
}
FIXED: dict[str, str | None] = {
    "src/shop/prices.py": "def net(amount, tax):\n    return amount - tax\n",
    "src/shop/rounding.py": "def cents(amount):\n    return round(amount * 100)\n",
    "tests/test_shop.py": (
        "from shop.prices import net\nfrom shop.rounding import cents\n\n\n"
        "def test_net():\n    assert net(3, 1) == 2\n\n\ndef test_cents():\n    assert cents(0.29) == 29\n"
    ),
}


@pytest.fixture
def fix(tmp_path: Path) -> Fix:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, FILES)
    ours = f"PYTHONPATH=src {sys.executable} -m pytest -q -p no:cacheprovider --junit-xml=$REPORT"
    return Fix(folder, commit(folder, FIXED), "python", setup="", test=ours)


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_fix_of_two_sources_is_completed_and_right_also_after_a_wrong_attempt(fix: Fix, wrong: int) -> None:
    result = play_fix(fix, Behaviour(FIX, wrong=wrong, tokens=1000))

    assert result.state == "COMPLETED", result.lines()
    assert result.right
    assert result.equal
    assert result.wrong == wrong
    assert result.failing == 2


@pytest.mark.parametrize("kind", [NOTHING, CLAIMS, TESTS])
def test_an_agent_that_does_not_mend_completes_nothing(fix: Fix, kind: str) -> None:
    result = play_fix(fix, Behaviour(kind, tokens=1000))

    assert result.state == "HALTED", result.lines()
    assert not result.right
    assert result.reasons


def test_a_fix_whose_tests_pass_without_it_cannot_be_played(fix: Fix) -> None:
    calm = commit(
        fix.repository,
        {"src/shop/prices.py": "TAX = 0\n" + str(FIXED["src/shop/prices.py"])}
        | {"tests/test_shop.py": str(FIXED["tests/test_shop.py"]) + "\n"},
    )

    with pytest.raises(CannotPlay, match="no failing test is mended"):
        play_fix(Fix(fix.repository, calm, "python", setup="", test=fix.test), Behaviour())
