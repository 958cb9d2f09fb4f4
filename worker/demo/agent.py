"""The scripted agent, which stands for an LLM: its story, named as its argument, knows what it answers.

It reads a step spec on its standard input, works in the current directory, and reports on the last line that it prints.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from worker.demo.story import Story, edited

CHARACTERS_A_TOKEN = 4


def main(kind: str) -> None:
    """Do the step on standard input."""
    given = sys.stdin.read()
    story: Story = import_module(f"worker.demo.stories.{kind}").STORY
    answer = story.answer(json.loads(given))
    for path, changes in answer.edits.items():
        file = Path(path)
        file.write_text(edited(file.read_text() if file.exists() else "", changes))
    tokens = (len(given) + answer.characters) // CHARACTERS_A_TOKEN
    sys.stdout.write(json.dumps({"tokens_used": tokens, "tool_calls": 1, **answer.report}))


if __name__ == "__main__":
    main(sys.argv[1])
