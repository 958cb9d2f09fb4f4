"""The agent of this demo: a script that stands for an LLM, and for a coding agent once there is a plan.

It reads a step spec on its standard input, works in the current directory, and reports on the last line that it prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.demo.evolution.answers import BOLD, MENDED
from worker.demo.evolution.example import FIND, FIX, GUESS, INDEX, MORE, QUERIES, SEARCH, SET_UP, TESTS, remembering

CHARACTERS_A_TOKEN = 4


def main() -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    spec = json.loads(given)
    failed = spec["context"]["previous_failure"] is not None
    said: dict[str, Any] = {"patch_cycles": 1}
    if spec["controller_task_spec"]["type"] == "DRAFT":
        said = {"output": MENDED if failed else BOLD}
    else:
        WORK[spec["step_id"]](failed=failed)
    sys.stdout.write(json.dumps({"tokens_used": len(given) // CHARACTERS_A_TOKEN, "tool_calls": 1, **said}))


def number_titles(*, failed: bool) -> None:
    """Take over what a branch found, with its fault at first."""
    _change(SEARCH, {SET_UP: SET_UP + INDEX, FIND: FIX if failed else GUESS})


def keep_answers(**_: bool) -> None:
    """Keep the answers of what is there by now."""
    set_up, find = remembering(QUERIES, FIX)
    _change(SEARCH, {INDEX: INDEX + set_up, FIX: find})


def prove_it(**_: bool) -> None:
    """Write tests."""
    Path(TESTS).write_text(Path(TESTS).read_text() + MORE)


WORK: dict[str, Callable[..., None]] = {
    "number-titles": number_titles,
    "keep-answers": keep_answers,
    "prove-it": prove_it,
}


def _change(path: str, changes: dict[str, str]) -> None:
    text = Path(path).read_text()
    for before, after in changes.items():
        text = text.replace(before, after)
    Path(path).write_text(text)


if __name__ == "__main__":
    main()
