"""An agent for the drafters `backend` and `cli`: its first plan is wrong, and it corrects the plan once it hears why.

As a program it answers the prompt on its standard input. It never plans a hopeless goal.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.kinds.evolution import a_plan, a_step

REPAIRED = "Why it was refused"
GOOD = a_plan(
    a_step("cache", files=["src/a.py"]),
    a_step("use", files=["src/b.py"], dependencies=["cache"]),
    fallback_plan="Only memoise the hot loop.",
)
BAD = a_plan(a_step("cache", title="", dependencies=["nobody"]))


def answer(prompt: str) -> str:
    """Answer a prompt."""
    plan = GOOD if REPAIRED in prompt and "hopeless" not in prompt else BAD
    return json.dumps(plan)


class Backend:
    """The class that the dotted path names; it takes no arguments."""

    def run(self, task: Any, *, working_dir: Path) -> SimpleNamespace:
        """Answer a task."""
        assert working_dir.is_dir()
        return SimpleNamespace(stdout=answer(task.prompt))


if __name__ == "__main__":
    sys.stdout.write(answer(sys.stdin.read()))
