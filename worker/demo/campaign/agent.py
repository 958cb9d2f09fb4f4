"""The agent of the campaign: a script that stands for an LLM. Like one, it is told off for its first draft.

It reads a step spec on its standard input, works in the current directory, and reports on the last line that it prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.demo.campaign.example import EXPLORATION, GUESS, TASKS, WORK

CHARACTERS_A_TOKEN = 4


def main() -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    spec = json.loads(given)
    said = _DOES[spec["controller_task_spec"]["type"]](spec)
    tokens = (len(given) + len(json.dumps(said))) // CHARACTERS_A_TOKEN
    sys.stdout.write(json.dumps({"tokens_used": tokens, "tool_calls": 1, **said}))


def explore(_: dict[str, Any]) -> dict[str, Any]:
    """Say what there is in the repository."""
    return {"output": EXPLORATION}


def draft(spec: dict[str, Any]) -> dict[str, Any]:
    """Say what is to be done: with a file that nobody may touch at first, without it once that was refused."""
    if spec["context"]["previous_failure"]:
        return {"output": {"tasks": TASKS}}
    return {"output": {"tasks": [{**task, "delta": [*task["delta"], *GUESS.get(task["slug"], ())]} for task in TASKS]}}


def patch(spec: dict[str, Any]) -> dict[str, Any]:
    """Do the task that stands in the step's input."""
    slug = spec["input"]["task"]["slug"]
    for path, changes in WORK[slug].items():
        text = Path(path).read_text() if Path(path).exists() else ""
        for old, new in changes:
            text = text.replace(old, new) if old else text + new
        Path(path).write_text(text)
    return {"patch_cycles": 1, "output": f"{slug}: {', '.join(WORK[slug])}"}


_DOES: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"EXPLORE": explore, "DRAFT": draft, "PATCH": patch}


if __name__ == "__main__":
    main()
