"""Prompts of agents as docs/prompts.md shows them: `python -m tests.support.prompts` writes them there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from worker.agents.agent import FOLDER
from worker.controller.instructions import NONE, Instructions, Trust
from worker.controller.prompt import prompt
from worker.controller.wire import Spec

PAGE = Path(__file__).parents[2] / "docs" / "prompts.md"
BEGIN, END = "<!-- prompts -->\n", "<!-- end of prompts -->\n"
BASE: dict[str, Any] = {
    "plan_id": "plan_3c-0199aaaabbbbccccddddeeeeffff0000",
    "attempt": 1,
    "lease": "lease",
    "lease_key": "key",
    "deadline": "2999-01-01T00:00:00Z",
    "reply_to": "outcomes",
}
LOG = """E   assert 3 == 4
E    +  where 3 = total([1, 2, 1])
tests/test_cart.py:9: AssertionError"""
FAILURE = {"category": "TEST_REGRESSION", "failing_tests": ["tests/test_cart.py::test_total"], "trace": LOG}
SPECS: dict[str, dict[str, Any]] = {
    "A step with file patterns, in its second attempt": {
        "step_id": "implement-fix",
        "mode": "patch",
        "attempt": 2,
        "title": "Implement the fix",
        "intent": "Fix with the smallest change that is right: The total of a cart is wrong",
        "guidance": "No refactoring.",
        "success_criteria": "What verifies the step passes.",
        "allowed_files": ["src/cart.py", "src/prices.py"],
        "allowed_patterns": ["src/**"],
        "excluded_patterns": ["tests/test_cart.py", "**/.env"],
        "limits": {"max_files": 5, "max_diff_lines": 200},
        "focus": [{"path": "src/cart.py", "lines": "4-9", "why": "the trace ends here"}],
        "verify_tools": [
            {"tool": "pytest", "argv": ["pytest", "-q", "tests/test_cart.py::test_total"], "timeout_s": 60}
        ],
        "context": {
            "failing_tests": ["tests/test_cart.py::test_total"],
            "failure_log": LOG,
            "answers": [{"step_id": "locate-source", "title": "Locate the source", "output": "src/cart.py, total"}],
            "previous_failure": FAILURE,
        },
    },
    "One part of a larger change, by names, in a repository that is trusted": {
        "step_id": "implement-core-piece",
        "mode": "patch",
        "title": "Implement the core logic: part 1 of 3",
        "intent": "Implement: Carts have vouchers",
        "guidance": "Follow the existing patterns and style.",
        "allowed_files": ["src/cart.py", "src/voucher.py"],
        "piece_of": "implement-core",
        "verify_tools": [
            {"tool": "py-compile", "argv": ["python", "-m", "compileall", "src/cart.py"], "timeout_s": 60}
        ],
    },
    "A step that answers": {
        "step_id": "analyze-failure",
        "mode": "read_only",
        "title": "Analyze the failure",
        "intent": "Find the root cause of: The total of a cart is wrong",
        "success_criteria": "The root cause is named, with the evidence for it.",
        "context": {"failure_log": LOG},
    },
    "A question with a schema": {
        "step_id": "choose",
        "mode": "read_only",
        "title": "Choose a design",
        "input": {
            "prompt": "Choose one of the designs.\n\n# The designs (from earlier steps)\n| - a table\n| - a column",
            "schema": {"type": "object", "properties": {"design": {"type": "string"}}, "required": ["design"]},
        },
    },
}


INSTRUCTIONS = {  # of the repository, for one of these
    "A step with file patterns, in its second attempt": Instructions(
        Trust.DATA, ("AGENTS.md",), "AGENTS.md:\n# Style\n\nAmounts are whole cents. Each function has a test."
    ),
    "One part of a larger change, by names, in a repository that is trusted": Instructions(
        Trust.TRUSTED, ("AGENTS.md",), "AGENTS.md:\n# Style\n\nAmounts are whole cents. Each function has a test."
    ),
}


def rendered() -> Iterator[tuple[str, str]]:
    """Yield each prompt under its title."""
    template = (FOLDER / "prompt.txt").read_text()
    for title, fields in SPECS.items():
        yield title, prompt(Spec.model_validate({**BASE, **fields}), template, (), INSTRUCTIONS.get(title, NONE))


def section() -> str:
    """Return the text of the page between the two marks."""
    return BEGIN + "".join(f"\n**{title}**\n\n```text\n{text}```\n" for title, text in rendered()) + "\n" + END


def main() -> None:
    """Write the prompts into the page."""
    page = PAGE.read_text()
    PAGE.write_text(re.sub(f"{BEGIN}.*?{END}", lambda _: section(), page, flags=re.DOTALL))


if __name__ == "__main__":
    main()
