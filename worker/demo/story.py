"""What a story is made of; standard library alone, since its scripted agent starts anew for every step of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tasks.base.errors import PlannerError

Spec = dict[str, Any]  # a step as a controller gives it to its agent
Changes = Sequence[tuple[str, str]]  # what is there and what comes instead; what comes for "" is appended
ADA = "Ada <ada@shop.example>"


class DemoFailed(PlannerError):
    """The demo did not end as it should."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on a branch; the first one of a branch follows the last one of `main`."""

    branch: str
    author: str  # name and address
    day: str
    subject: str
    files: Mapping[str, str]
    body: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a scripted agent does for a step: the files that it changes, and what it reports."""

    edits: Mapping[str, Changes] = field(default_factory=dict)
    report: Mapping[str, Any] = field(default_factory=dict)
    characters: int = 0  # that it read and wrote, its step aside


@dataclass(frozen=True, slots=True)
class Story:
    """One demo: `play` does it step by step, `answer` is its agent."""

    summary: str  # the last line of a demo that went well
    repository: str  # the name of its directory
    commits: Sequence[Commit]
    play: Callable[..., None]  # takes a Session, which a scripted agent does not import
    answer: Callable[[Spec], Answer]
    queues: Sequence[str] = ()  # those of its kind, where that gives its queues their names
    needs: Sequence[str] = ("pytest",)  # modules that it runs


def edited(text: str, changes: Changes) -> str:
    """Make the changes in a text."""
    for old, new in changes:
        text = text.replace(old, new) if old else text + new
    return text


# Loading them, where this project is developed, takes longer than the tests of a demo.
_IDLE_PLUGINS = ("anyio", "hypothesispytest", "valkey", "xdist", "xdist.looponfail")


def pyproject(name: str, version: str, more: str = "") -> str:
    """Write the pyproject.toml of a package with tests."""
    return f'''\
[project]
name = "{name}"
version = "{version}"

{more}[tool.pytest.ini_options]
testpaths = ["tests"]
pythonpath = ["."]
addopts = "{" ".join(f"-p no:{plugin}" for plugin in _IDLE_PLUGINS)}"
'''
