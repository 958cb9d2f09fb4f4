"""The scripted agent in place of an LLM. Its argument names a story, which contains its answers.

It reads a step spec on its standard input, works in the current directory, and prints its report on the last line.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from worker.demo.story import apply_changes, load_story

CHARACTERS_A_TOKEN = 4


def main(kind: str) -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    answer = load_story(kind).answer(json.loads(given))
    files = {Path(change.file) for change in answer.changes}
    texts = {str(file): file.read_text() for file in files if file.exists()}
    for path, text in apply_changes(texts, answer.changes).items():
        Path(path).write_text(text)
    tokens = (len(given) + answer.characters) // CHARACTERS_A_TOKEN
    sys.stdout.write(json.dumps({"tokens_used": tokens, "tool_calls": 1, **answer.report}))


if __name__ == "__main__":
    main(sys.argv[1])
