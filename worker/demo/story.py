"""The parts of a story. Only the standard library is imported, because each step starts a new scripted agent."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tasks.base.errors import PlannerError

Spec = dict[str, Any]  # a step as a controller gives it to its agent
STORIES = Path(__file__).parent / "stories"


class DemoFailed(PlannerError):
    """The demo did not end as it should."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a file: `new` replaces every `old`, or is appended without `old`."""

    file: str
    new: str
    old: str = ""


def apply_changes(texts: Mapping[str, str], changes: Iterable[Change]) -> dict[str, str]:
    """Return the files after these changes; a file that is not in `texts` was empty before."""
    after: dict[str, str] = {}
    for change in changes:
        text = after.get(change.file, texts.get(change.file, ""))
        after[change.file] = text.replace(change.old, change.new) if change.old else text + change.new
    return after


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on a branch, with whole files and changes; the first one of a branch follows the last one of `main`."""

    branch: str
    author: str  # name and address
    day: str
    subject: str
    files: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    changes: Sequence[Change] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A scripted agent's work on a step: the changed files, and the report."""

    changes: Sequence[Change] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    characters: int = 0  # that it read and wrote, its step aside


class Story:
    """One demo: `play` runs it step by step, `answer` is its agent, and the TOML file of its kind has its texts.

    The file has the story's `commits`, and its `edits`: named lists of changes, for the commits and for the agent.
    """

    def __init__(self, kind: str, play: Callable[..., None], answer: Callable[[Spec], Answer]) -> None:
        self.data: dict[str, Any] = tomllib.loads((STORIES / f"{kind}.toml").read_text())
        self.play = play  # takes a Session, which a scripted agent does not import
        self.answer = answer
        self.summary: str = self.data["summary"]  # the last line of a demo that went well
        self.repository: str = self.data["repository"]  # the name of its directory
        self.needs: list[str] = self.data.get("needs", ["pytest"])  # modules that it runs
        self.queues: list[str] = self.data.get("queues", [])  # those of its kind, where that gives them their names
        self.edits = {name: [Change(**each) for each in edit] for name, edit in self.data["edits"].items()}
        self.commits = [self._commit(**each) for each in self.data["commits"]]

    def changes(self, edits: Iterable[str]) -> list[Change]:
        """Return the changes in the edits of these names, in order."""
        return [change for name in edits for change in self.edits[name]]

    def _commit(self, branch: str = "main", edits: Sequence[str] = (), **rest: Any) -> Commit:
        return Commit(branch, changes=self.changes(edits), **rest)


def load_story(kind: str) -> Story:
    """Return the story of a kind."""
    story: Story = import_module(f"worker.demo.stories.{kind}").STORY
    return story
