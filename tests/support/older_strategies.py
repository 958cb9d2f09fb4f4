"""Run with the sources of the release before: decides what is asked on stdin, each line what a strategy keeps.

A line is [kind, what is kept, a step]. Answered is a line [kind, what is kept then, null] for each decision that
changes it, and one that ends in what went wrong.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from typing import Any

OUTPUTS: tuple[Any, ...] = (None, {"status": "blocked", "reason": "no access"}, {"files": ["src/auth.py"]})
ANSWERS = ("A", "B", "both", "yes", "src/auth.py", "accept: it is good", "continue", "stop")


def decisions(kind: str, kept: dict[str, Any], step: dict[str, Any]) -> Iterator[Any]:
    """Have the strategy of a kind decide whatever may come; yields what it makes of that."""
    catalogue, draft = import_module("tasks.planning.catalogue").CATALOGUE, import_module("tasks.planning.draft")
    strategy = import_module("tasks.planning.registry").strategy_of(import_module("schemas.base").GoalKind(kind))
    goal = import_module("schemas.goal").Goal.model_validate(kept["goal"])
    live = draft.Growth(goal, kept["state"], kept["document"], 0, [])
    yield strategy.stuck(live, catalogue)
    for value in ANSWERS:
        yield strategy.answer(live, value, catalogue)
    for step_id in kept["ids"]:
        facts = {**step, "step_id": step_id}
        strategy.input_for(live, facts)
        for output in OUTPUTS:
            refused = strategy.refusal(live, facts, output)
            end = draft.End(step_id, facts, "FAILED" if refused else "DONE", output)
            yield strategy.advance(live, end, catalogue)


def main() -> None:
    """Answer each line."""
    for line in sys.stdin:
        kind, kept, step = json.loads(line)
        try:
            for found in decisions(kind, kept, step):
                if hasattr(found, "state"):
                    ids = [*kept["ids"], *(step.step_id for step in found.steps)]
                    after = {**kept, "state": found.state, "document": found.document, "ids": ids}
                    sys.stdout.write(json.dumps([kind, after, None], default=list) + "\n")
        except Exception:
            sys.stdout.write(json.dumps([kind, kept, traceback.format_exc()]) + "\n")


if __name__ == "__main__":
    main()
