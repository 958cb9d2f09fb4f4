"""Makes a sample of the goal that a webhook rule produces, and finds its mistakes as a worker would."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from schemas import codec
from schemas.base import GoalVerdict
from schemas.envelope import Problem
from tasks.text.paths import is_glob
from tasks.toolchain.languages import LANGUAGES, language_of
from worker.engine.preview import preview
from worker.settings.settings import Settings
from worker.streams.decode import read_goal
from worker.streams.inbox import StreamEntry
from worker.webhooks.rules import goal_with
from worker.webhooks.sources_file import Rule

SAMPLE_COMMIT = "5a" * 20
WORD = "sample"


@dataclass(frozen=True, slots=True)
class Checked:
    """A goal, and the mistakes that a worker with these settings finds in it."""

    goal: dict[str, Any]
    mistakes: tuple[str, ...]


def sample_of(rule: Rule) -> dict[str, Any]:
    """Return a sample goal of a rule, with a sample word for each expression and a sample file for each glob."""
    context: dict[str, Any] = {"base_sha": SAMPLE_COMMIT} if rule.base_sha else {}
    if rule.files or rule.files_from:
        context["files"] = [_file(each) if is_glob(each) else each for each in rule.allowed_files]
    text = _with_words(rule.goal) if rule.goal else f"Do the task of a {WORD}"
    goal = goal_with(rule, rule.repos[0] if rule.repos else None, text, context)
    return goal | ({"constraints": [_with_words(each) for each in rule.constraints]} if rule.constraints else {})


def _with_words(template: str) -> str:
    return re.sub(r"\{\{.*?\}\}", WORD, template, flags=re.DOTALL)


def check_goal(goal: dict[str, Any], settings: Settings) -> Checked:
    """Check a goal as a worker would before planning. Raises WrongTools."""
    read = read_goal(StreamEntry("", b"", {b"data": codec.dumps(goal)}), settings.max_goal_bytes, strict=True)
    if isinstance(read, Problem):
        return Checked(goal, tuple(f"{each.pointer}: {each.message}" for each in read.errors) or (read.detail,))
    named = read[0].context.language
    if named and language_of(read[0].context, ()) is None:
        known = ", ".join(LANGUAGES)
        return Checked(goal, (f"/context/language: {named} is none that is known; there are {known}",))
    found = preview(read[0], settings)
    if found.verdict != GoalVerdict.REJECTED:
        return Checked(goal, ())
    return Checked(goal, tuple(f"{each['pointer']}: {each['message']}" for each in found.errors) or (found.reason,))


def _file(glob: str) -> str:
    """Return the name of a file that a glob matches."""
    name = re.sub(r"\*\*/", "", glob)
    return re.sub(r"\[[^\]]*\]|[*?]", WORD[0], re.sub(r"\*\*$", f"{WORD}.py", name))
