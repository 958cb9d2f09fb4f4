"""An agent that does more than it is asked mends five small bugs, and what it did beside is not landed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.real.fix import Fix
from tests.real.play import Behaviour, play_fix
from tests.support.committing import commit, git

pytestmark = [pytest.mark.outages, pytest.mark.long]

# The source with its bug, the source without it, and the test that shows it.
BUGS = {
    "range": (
        "def pages(count, size):\n    return count // size\n",
        "def pages(count, size):\n    return -(-count // size)\n",
        "assert pages(5, 2) == 3",
    ),
    "default": (
        "def tagged(tag, tags=[]):\n    tags.append(tag)\n    return tags\n",
        "def tagged(tag, tags=()):\n    return [*tags, tag]\n",
        "tagged('a'); assert tagged('b') == ['b']",
    ),
    "sign": (
        "def net(amount, tax):\n    return amount + tax\n",
        "def net(amount, tax):\n    return amount - tax\n",
        "assert net(3, 1) == 2",
    ),
    "late_binding": (
        "def adders():\n    return [lambda x: x + n for n in range(3)]\n",
        "def adders():\n    return [lambda x, n=n: x + n for n in range(3)]\n",
        "assert [add(0) for add in adders()] == [0, 1, 2]",
    ),
    "escape": (
        "import re\n\n\ndef has(word, text):\n    return re.search(word, text) is not None\n",
        "import re\n\n\ndef has(word, text):\n    return re.search(re.escape(word), text) is not None\n",
        "assert not has('a.c', 'abc')",
    ),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_naive_agent_completes_a_small_fix_and_nothing_else_is_landed(bug: str, tmp_path: Path) -> None:
    wrong, right, test = BUGS[bug]
    name = right.partition("def ")[2].partition("(")[0]
    shown = f"from shop.code import {name}\n\n\ndef test_{name}():\n    {test}\n"
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    start = {"src/shop/__init__.py": "", "src/shop/code.py": wrong, "README.md": "# Shop\n", ".gitignore": "build/\n"}
    commit(folder, {**start, "tests/test_shop.py": "def test_nothing():\n    pass\n"})
    fixed = commit(folder, {"src/shop/code.py": right, "tests/test_shop.py": shown})
    ours = f"PYTHONPATH=src {sys.executable} -m pytest -q -p no:cacheprovider --junit-xml=$REPORT"

    result = play_fix(Fix(folder, fixed, "python", setup="", test=ours), Behaviour(tokens=1000, naive=True))

    assert result.state == "COMPLETED", result.lines()
    assert result.right
    assert result.equal
