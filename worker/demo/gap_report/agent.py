"""The agent of the demo: a script that stands for an LLM. It works on the gap that came with its step.

It reads a step spec on its standard input, works in the current directory, and reports on the last line that it prints.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.demo.gap_report.example import BUG, FIX, PRICES, RECEIPT, RECEIPT_TEXT

CHARACTERS_A_TOKEN = 4
UNUSED = re.compile(r"^([^\s:]+):(\d+):\d+: F401 ", re.MULTILINE)


def main() -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    spec = json.loads(given)
    if spec["mode"] == "patch":
        _hand_of(spec["input"]["gap"])(spec)
    sys.stdout.write(json.dumps({"tokens_used": len(given) // CHARACTERS_A_TOKEN, "tool_calls": 1}))


def _hand_of(gap: dict[str, str]) -> Callable[[dict[str, Any]], None]:
    if gap["category"] == "inbox":
        return _make_receipt
    return _drop_imports if "ruff" in gap["description"] else _round


def _drop_imports(spec: dict[str, Any]) -> None:
    """Delete the lines that the evidence names, of the files that may change."""
    found = [(path, int(line)) for path, line in UNUSED.findall(spec["input"]["gap"]["evidence"])]
    for path in spec["allowed_files"]:
        lines = Path(path).read_text().splitlines(keepends=True)
        kept = [text for number, text in enumerate(lines, 1) if (path, number) not in found]
        Path(path).write_text(re.sub(r'"""\n\n\n+', '"""\n\n\n', "".join(kept), count=1))


def _round(_: dict[str, Any]) -> None:
    Path(PRICES).write_text(Path(PRICES).read_text().replace(BUG, FIX))


def _make_receipt(_: dict[str, Any]) -> None:
    Path(RECEIPT).write_text(RECEIPT_TEXT)


if __name__ == "__main__":
    main()
