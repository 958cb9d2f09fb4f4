"""A git history with authors, dates and branches, written into a new repository in one go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from worker.host.git import Git


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on a branch; the first one of a branch follows the last one of `main`."""

    branch: str
    author: str  # name and address
    day: str
    subject: str
    files: Mapping[str, str]
    body: str = ""


def write(root: Path, history: Iterable[Commit]) -> None:
    """Make the repository `root` with these commits, and check `main` out."""
    root.mkdir(parents=True)
    git = Git(root)
    git("init", "--quiet", "--initial-branch=main")
    git("fast-import", "--quiet", stdin=b"".join(_stream(history)))
    git("checkout", "--quiet", "main")


def _stream(history: Iterable[Commit]) -> Iterator[bytes]:
    """Say it as `git fast-import` reads it: every text after its length."""
    begun: set[str] = set()
    for commit in history:
        at = int(datetime.fromisoformat(commit.day).replace(hour=9, tzinfo=UTC).timestamp())
        yield f"commit refs/heads/{commit.branch}\n".encode()
        yield f"author {commit.author} {at} +0000\ncommitter {commit.author} {at} +0000\n".encode()
        yield _data(f"{commit.subject}\n\n{commit.body}".strip() + "\n")
        if commit.branch not in begun and commit.branch != "main":
            yield b"from refs/heads/main\n"
        begun.add(commit.branch)
        for path, text in commit.files.items():
            yield f"M 100644 inline {path}\n".encode() + _data(text)


def _data(text: str) -> bytes:
    raw = text.encode()
    return b"data %d\n%s\n" % (len(raw), raw)
