"""The facts of git about a folder: its commit, with files and manifests, its remotes, and uncommitted changes.

Everything is read through git: no link leads out of the repository, and none of its programs run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import SubprocessError
from typing import Self

from worker.host.git import Git, GitError

FAILURES = (GitError, OSError, SubprocessError, ValueError)  # the last of a name with a null byte, or no UTF-8
FILE_MODES = ("100644", "100755")
MAX_PATH = 500
MAX_OBJECT = 1024 * 1024
BROKEN = "\ufffd"  # replaces invalid UTF-8


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder of a git repository with at least one commit; `prefix` is the folder's path from the root."""

    git: Git
    prefix: str
    head: str
    remotes: Mapping[str, str]  # URLs by name

    @classmethod
    def at(cls, folder: Path) -> Self | None:
        """Return the checkout at `folder`; None if git has no commit for it."""
        git = Git(folder)
        with suppress(*FAILURES):
            head = git.line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
            prefix = git.line("rev-parse", "--show-prefix")
            listed = git("config", "-z", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1)).decode()
            pairs = (entry.partition("\n") for entry in listed.split("\0") if entry)
            return cls(git, prefix, head, {key.split(".", 1)[1][: -len(".url")]: url for key, _, url in pairs})
        return None

    def commit(self, name: str) -> str | None:
        """Return the id of the commit `name`; None if this clone does not have it."""
        with suppress(*FAILURES):
            return self.git.line("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return None

    def files(self, commit: str) -> dict[str, str]:
        """Return the regular files of a commit that a goal can name, each with the id of its content."""
        found: dict[str, str] = {}
        for entry in self.git("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
            about, _, raw = entry.partition(b"\t")
            mode, _, rest = about.decode().partition(" ")
            if mode in FILE_MODES and (path := as_path(raw)):
                found[path] = rest.rpartition(" ")[2]
        return found

    def texts(self, files: Mapping[str, str]) -> dict[str, str]:
        """Return the contents of files; missing and too large ones are left out."""
        ids = list(dict.fromkeys(files.values()))
        known = self.git("cat-file", "--batch-check=%(objectname) %(objectsize)", stdin="\n".join(ids).encode())
        sizes = dict(line.split(" ", 1) for line in known.decode().splitlines())
        wanted = [each for each in ids if sizes[each].isdigit() and int(sizes[each]) <= MAX_OBJECT]
        if not wanted:
            return {}
        rest, contents = self.git("cat-file", "--batch=%(objectname)", stdin="\n".join(wanted).encode()), {}
        for each in wanted:  # the id, a line's end, the content, a line's end
            begin = len(each) + 1
            end = begin + int(sizes[each])
            contents[each], rest = rest[begin:end].decode(errors="replace"), rest[end + 1 :]
        return {path: contents[each] for path, each in files.items() if each in contents}

    def is_changed(self) -> bool:
        """Return whether tracked files have uncommitted changes; a bare repository has none."""
        with suppress(*FAILURES):
            keys = (
                self.git("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
                .decode()
                .split("\0")[:-1]
            )
            variables = {f"GIT_CONFIG_KEY_{number}": key for number, key in enumerate(keys)}  # filters are programs
            variables |= {f"GIT_CONFIG_VALUE_{number}": "" for number in range(len(keys))}
            variables["GIT_CONFIG_COUNT"] = str(len(keys))
            git = Git(Path(self.git.line("rev-parse", "--show-toplevel")), "--no-optional-locks", environment=variables)
            return bool(git("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"))
        return False

    def is_published(self, commit: str) -> bool:
        """Return whether a remote branch contains the commit, as far as this clone knows; True without any remote."""
        if not self.remotes:
            return True
        with suppress(*FAILURES):
            return bool(self.git("for-each-ref", "--count=1", "--contains", commit, "refs/remotes"))
        return True


def as_path(raw: bytes) -> str:
    """Return a path that git lists as text; "" if a goal cannot contain it, as with control characters."""
    name = raw.decode(errors="replace")
    return name if len(name) <= MAX_PATH and name.isprintable() and BROKEN not in name else ""
