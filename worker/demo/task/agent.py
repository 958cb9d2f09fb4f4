"""The agent of the demo: a script that stands for an LLM. Like one, it takes the obvious for the right at first.

It reads a step spec on its standard input, works in the current directory, and reports on the last line that it prints.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from worker.demo.task.example import BUG, FIX, GUESS, IMPORT, SOURCE

CHARACTERS_A_TOKEN = 4


def main() -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    spec = json.loads(given)
    source = Path(SOURCE).read_text()
    said = patch(spec, source) if spec["mode"] == "patch" else {"output": observe(spec, source)}
    seen = len(given) + len(source) + len(Path(SOURCE).read_text())
    sys.stdout.write(json.dumps({"tokens_used": seen // CHARACTERS_A_TOKEN, "tool_calls": 1, **said}))


def patch(spec: dict[str, Any], source: str) -> dict[str, Any]:
    """Change the source: by a guess at first, and with care once a verification has failed."""
    if spec["context"]["previous_failure"]:
        fixed = source.replace(BUG, FIX).replace(IMPORT, f"from calendar import monthrange\n{IMPORT}")
    else:
        fixed = source.replace(BUG, GUESS)
    Path(SOURCE).write_text(fixed)
    return {"patch_cycles": 1}


def observe(spec: dict[str, Any], source: str) -> str:
    """Say what can be seen, without changing anything."""
    if spec["controller_task_spec"]["type"] == "EXPLORE":
        return f"{SOURCE}:{source.splitlines().index(BUG.rstrip()) + 1}: {BUG.strip().removeprefix('return ')}"
    failing = len(spec["context"]["failing_tests"])
    return f"{failing} tests fail: date.replace keeps day 31, also in February"


if __name__ == "__main__":
    main()
