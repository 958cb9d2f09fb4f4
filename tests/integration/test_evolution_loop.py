"""The page docs/evolution.md: three iterations on a real history, by an honest agent that errs at every third step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from schemas.kinds.evolution import CommitCard
from tests.conftest import running_worker
from tests.support import evolving_agent
from tests.support.programs import running
from worker.demo import repository
from worker.demo.story import Commit
from worker.host.git import Git
from worker.store import queries

pytestmark = [pytest.mark.outages, pytest.mark.long]
ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
SEARCH = '''BLOCK = 1


def find(titles, word):
    """Tell whether `word` is one of the sorted `titles`, and how many of them were looked at."""
    looked, at = 0, 0
    while at + BLOCK < len(titles) and titles[at + BLOCK] <= word:
        at, looked = at + BLOCK, looked + 1
    for each in titles[at : at + BLOCK]:
        looked += 1
        if each == word:
            return True, looked
    return False, looked
'''
TESTS = """from search import find

MOST = 401
TITLES = [f"{number:03}" for number in range(400)]


def test_every_title_is_found():
    assert all(find(TITLES, title)[0] for title in TITLES)
    assert not find(TITLES, "no")[0]


def test_few_are_looked_at():
    assert max(find(TITLES, title)[1] for title in TITLES) <= MOST
"""
EVALUATE = "from test_search import *\n\nprint(max(find(TITLES, title)[1] for title in TITLES))\n"
OWN = ("draft-plan", "widen", "prove")
FILES = {"search.py": SEARCH, "test_search.py": TESTS, "evaluate.py": EVALUATE}


@pytest.mark.parametrize("mistake", [0, 1])
def test_three_iterations_of_the_page_come_to_their_ends(
    redis: Redis, redis_url: str, tmp_path: Path, mistake: int
) -> None:
    shop = tmp_path / "shop"
    first = Commit("main", "Ada <ada@shop.example>", "2026-03-01", "Find titles", FILES)
    second = Commit("main", "Ada <ada@shop.example>", "2026-03-02", "Tell what it is", {"README": "A shop.\n"})
    repository.make(shop, [first, second])
    (tmp_path / "home").mkdir()
    (tmp_path / "count").mkdir()
    page = (ROOT / "docs/evolution.md").read_text()
    (script,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "experiment.py").write_text(script)
    env = {"PATH": f"{BIN}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"), "PLANNER_REDIS_URL": redis_url}
    env |= {"PLANNER_STATE_DIR": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    agent = f"{sys.executable} {evolving_agent.__file__} {tmp_path / 'count' / 'steps'} {mistake}"
    argv = [str(BIN / "planner"), "controller", "--exec", agent, "--workdir", str(shop)]
    argv += ["--agent-path", f"{tmp_path / 'count'}:rw", "--agent-path", str(ROOT / "tests/support")]
    with (
        running_worker(redis_url, tmp_path / "worker.log"),
        running(argv, env, tmp_path / "controller.log", tmp_path),
    ):
        words = [sys.executable, "experiment.py", str(shop), "3"]
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    goals = [queries.goal(redis, f"iteration-{number}") for number in (1, 2, 3)]
    views = [queries.plan(redis, 1, goal.plan_id) for goal in goals if goal]
    cards = [CommitCard.model_validate((view.document or {})["commit_card"]) for view in views if view]
    assert [view.state for view in views if view] == ["COMPLETED"] * 3
    again = [step.step_id for view in views if view for step in view.steps if step.step_id in OWN and step.attempt == 2]
    assert again == (tmp_path / "count" / "mistakes").read_text().split()
    assert len(again) >= 3
    tips = [Git(shop).line("rev-parse", f"planner/{view.plan_id}") for view in views if view]
    assert [card.commit_hash for card in cards] == tips
    assert [card.parent_commit_hash for card in cards] == [Git(shop).line("rev-parse", "main"), *tips[:-1]]
    assert Git(shop).line("rev-list", "--count", f"main..{tips[-1]}") == "6"  # each began where the one before ended
    assert [card.metrics[0].value for card in cards] == [201, 103, 57]
    assert cards[1].evaluation_summary == "looked_at 103 (base 201)"
    assert [card.key_files for card in cards] == [("search.py", "test_search.py")] * 3
