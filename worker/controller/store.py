"""The controller's own git directory: commits fetched from the operator's repository, objects made of an attempt.

No agent gets to it: it lies beside the agents' clone, not in it, and no git that reads the clone runs here.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from worker.controller.repository import Repository
from worker.host.git import UPLOAD_PACK, Git

HISTORY = 50  # so many commits of the past are at hand
MAX_PACKS = 40  # then the directory is made anew, so that it does not grow for as long as the controller lives
NEUTRAL = "* !text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace !export-subst\n"
SUBMODULE = b"160000"

Entry = tuple[bytes, bytes]  # mode and object id


class Store:
    """The git directory in `home`; what is made of an attempt lies apart, and is dropped at the next one."""

    def __init__(self, home: Path, source: Repository) -> None:
        self._source = source
        self.data, self._made, self._index = home / "store", home / "made", home / "index"
        self._blobs = home / "blobs"
        apart = {
            "GIT_OBJECT_DIRECTORY": str(self._made),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.data / "objects"),
        }
        self._fetching = Git(home, f"--git-dir={self.data}", environment={"GIT_ALLOW_PROTOCOL": "file"})
        self.git = Git(home, f"--git-dir={self.data}", environment={**apart, "GIT_INDEX_FILE": f"{self._index}.made"})
        self._checkout = {**apart, "GIT_INDEX_FILE": str(self._index)}
        self._begin()

    @property
    def index(self) -> Path:
        """Where the index of the last checkout lies."""
        return self._index

    def _begin(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self._there: set[str] = set()
        self._fetching("init", "--quiet", "--bare", f"--object-format={self._source.object_format}", str(self.data))
        (self.data / "info").mkdir(exist_ok=True)
        (self.data / "info/attributes").write_text(NEUTRAL)

    def fetch(self, commit: str, name: str) -> None:
        """Have `commit` here, with some of its history; `name` tells git what it may build upon next time."""
        if commit in self._there:
            return
        if len(list((self.data / "objects/pack").glob("*.pack"))) >= MAX_PACKS:
            self._begin()
        self._fetching(
            *("-c", "fetch.unpackLimit=1", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--force"),
            *("--no-auto-maintenance", f"--depth={HISTORY}", f"--upload-pack={UPLOAD_PACK}"),
            *(str(self._source.common), f"{commit}:refs/plans/{name}"),
        )
        self._there.add(commit)

    def forget(self) -> None:
        """Drop what was made of the last attempt."""
        shutil.rmtree(self._made, ignore_errors=True)
        self._made.mkdir()

    def check_out(self, commit: str, root: Path) -> None:
        """Make the files in `root` those of `commit`; whatever else lies there has been removed before."""
        git = Git(root, f"--git-dir={self.data}", f"--work-tree={root}", environment=self._checkout)
        # The files were handed over to their user since then, which changed their marks; `snapshot` has compared those.
        known = ("-c", "core.trustctime=false", "-c", "core.checkStat=minimal")
        git("-c", "core.bare=false", *known, "read-tree", "--reset", "-u", commit)

    def files(self, commit: str) -> Mapping[bytes, Entry]:
        """List the files of `commit`."""
        lines = (line.split(b"\t", 1) for line in self.git("ls-tree", "-r", "-z", commit).split(b"\0") if line)
        return {path: (about[:6], about.rsplit(b" ", 1)[1]) for about, path in lines}

    def tree(self, changed: Mapping[bytes, tuple[bytes, bytes] | None]) -> str:
        """Make the tree that differs from the last checkout by `changed`: mode and content, or None for a removal."""
        shutil.copyfile(self._index, f"{self._index}.made")
        blobs = self._write({path: new[1] for path, new in changed.items() if new})
        gone = b"".join(b"0 %s\t%s\0" % (b"0" * len(self.null), path) for path, new in changed.items() if not new)
        new = b"".join(b"%s %s\t%s\0" % (new[0], blobs[path], path) for path, new in changed.items() if new)
        self.git("update-index", "-z", "--index-info", stdin=gone + new)
        return self.git.line("write-tree")

    @property
    def null(self) -> bytes:
        """The object id that means none."""
        return b"0" * (64 if self._source.object_format == "sha256" else 40)

    def _write(self, contents: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Write blobs; git reads them from files of ours, by names of ours."""
        self._blobs.mkdir()
        try:
            for number, data in enumerate(contents.values()):
                (self._blobs / str(number)).write_bytes(data)
            names = "".join(f"{self._blobs / str(number)}\n" for number in range(len(contents)))
            written = self.git("hash-object", "-w", "--no-filters", "--stdin-paths", stdin=names.encode())
            return dict(zip(contents, written.split(), strict=True))
        finally:
            shutil.rmtree(self._blobs)

    def commit(self, tree: str, parent: str, message: str) -> str:
        """Commit `tree` on `parent`."""
        return self.git.line("commit-tree", tree, "-p", parent, stdin=message.encode())

    def merged(self, base: str, theirs: str, tree: str) -> str:
        """Merge `tree`, which was made from `base`, into the commit `theirs`; raises GitError on a conflict.

        Both sides are put upon `base`, so that it is found however many commits lie between.
        """
        sides = (self.commit(f"{theirs}^{{tree}}", base, "theirs"), self.commit(tree, base, "ours"))
        return self.git.line("merge-tree", "--write-tree", "--no-messages", *sides).split("\n")[0]

    def pack(self, commit: str, known: str) -> bytes:
        """Pack `commit` with all that it needs beside what the commit `known` has."""
        return self.git("pack-objects", "--revs", "--stdout", "-q", stdin=f"{commit}\n^{known}\n".encode())

    def keep(self, commit: str, pack: bytes) -> None:
        """Take in what has landed, so that it need not be fetched."""
        self._fetching("index-pack", "--stdin", stdin=pack)
        self._there.add(commit)
