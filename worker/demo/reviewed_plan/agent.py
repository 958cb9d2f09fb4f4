"""The agent of this demo: a script that stands for an LLM in four roles, told apart by the queue of the step.

It reads a step spec on its standard input, works in the current directory, and reports on the last line that it prints.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from worker.demo.reviewed_plan import QUEUES
from worker.demo.reviewed_plan.reviewer import reviewer
from worker.demo.reviewed_plan.roles import architect, developer, writer

CHARACTERS_A_TOKEN = 4
ROLES: Mapping[str, Callable[[dict[str, Any]], Any]] = dict(
    zip(QUEUES, (architect, developer, writer, reviewer), strict=True)
)


def main() -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    spec = json.loads(given)
    output = ROLES[spec["queue"]](spec)
    seen = len(given) + len(json.dumps(output))
    sys.stdout.write(json.dumps({"tokens_used": seen // CHARACTERS_A_TOKEN, "tool_calls": 1, "output": output}))


if __name__ == "__main__":
    main()
