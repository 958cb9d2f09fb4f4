"""Makes texts of a plan safe for forges: they are shown, but notify no user, close no issue and run no command.

A plan's texts come from goals and agents. In a pull request or a commit, a forge treats `@name` as a notification and
`fixes #1` as a command to close an issue. It treats a line `/merge` as a command, and `[skip ci]` as a request for no
tests. A character without width in the middle turns all of them into plain text.
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
    """Return `text` without anything that a forge would interpret."""
    return _OBEYED.sub(lambda found: found[0] + BREAK, text)


def title_of(text: str, otherwise: str) -> str:
    """Return a title: the text on one line, or `otherwise` if it is empty."""
    return disarm(" ".join(text.split()) or otherwise)[:MAX_TITLE]


def body_of(text: str) -> str:
    """Return the text of a pull request."""
    safe = disarm(text)
    return safe if len(safe) <= MAX_TEXT else safe[: MAX_TEXT - len(CUT)] + CUT
