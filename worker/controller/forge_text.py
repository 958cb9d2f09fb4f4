"""Words of a plan that a forge would obey: they are shown, and call nobody, close nothing and start nothing.

A plan's words come from goals and agents. In a pull request or a commit a forge makes of `@name` a message to that
person, of `fixes #1` the end of an issue, of a line `/merge` a command, and of `[skip ci]` a change that nobody tests.
A character without width in their midst makes all of them plain words.
"""

from __future__ import annotations

import re

BREAK = "\u200b"
MAX_TITLE, MAX_TEXT = 200, 60_000  # characters; GitHub takes 256 and 65 536
CUT = "\n\n(cut)"
_OBEYED = re.compile(
    r"@(?=\w)"  # people and teams
    r"|(?<=#)(?=\d)|(?<=\bGH-)(?=\d)|(?<=!)(?=\d)"  # issues and merge requests by their numbers
    r"|(?<=/issues/)(?=\d)|(?<=/pull/)(?=\d)|(?<=/merge_requests/)(?=\d)|(?<=/work_items/)(?=\d)"  # and by their URLs
    r"|^[ \t>]*/(?=\w)"  # commands of forges and their bots
    r"|\[(?=(?:skip|ci|no|actions)[ _-](?:ci|skip|actions)\])"
    r"|\*\*\*(?=NO_CI)",
    re.IGNORECASE | re.MULTILINE,
)


def disarm(text: str) -> str:
    """Return `text` with nothing in it that a forge obeys."""
    return _OBEYED.sub(lambda found: found[0] + BREAK, text)


def title_of(text: str, otherwise: str) -> str:
    """Return a title: one line of `text`, or `otherwise` where there is none."""
    return disarm(" ".join(text.split()) or otherwise)[:MAX_TITLE]


def body_of(text: str) -> str:
    """Return the text of a pull request."""
    safe = disarm(text)
    return safe if len(safe) <= MAX_TEXT else safe[: MAX_TEXT - len(CUT)] + CUT
