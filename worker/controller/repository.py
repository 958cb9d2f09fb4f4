"""The git directories of our git: the operator's repository, and a controller's own store outside of the clone.

All controllers of a machine share the repository. Only its branches of plans are written, each from the commit that was
read to the next. Files, index, HEAD, configuration and other branches never are. No agent can access the store, and no
git that reads the clone runs there.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from worker.controller.readiness import UnknownCommit
from worker.controller.remote import FULL_ID, Remote, without_users
from worker.host.git import UPLOAD_PACK, Git, GitError

OLDEST_GIT = (2, 38)  # which merges without a checkout
HISTORY = 50  # number of earlier commits that are fetched
MAX_PACKS = 40  # then the directory is made again, so that it does not grow during the controller's life
NEUTRAL = "* !text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace !export-subst\n"
SUBMODULE = b"160000"
PLANS = "refs/heads/planner/"
ORIGIN = "refs/remotes/origin/"  # branches of its remote, if they were fetched

_OF_A_PLAN = re.compile(r"plan_[0-9a-f]{2}-[0-9a-f]{32}")
TreeEntry = tuple[bytes, bytes]  # mode and object id


def is_of_a_plan(ref: str) -> bool:
    """Return whether a branch is made by plans: the branch name of a delivery contains the plan's id."""
    return ref.startswith(PLANS) or _OF_A_PLAN.search(ref) is not None


def branch_of(plan_id: str) -> str:
    """Return the branch with a plan's verified changes."""
    return f"{PLANS}{plan_id}"


class Repository:
    """The operator's git repository at `path`.

    Raises GitError if there is none, if it is empty, or if git is too old.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        version = Git(path).line("version")
        if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_GIT:
            raise GitError(f"git {'.'.join(map(str, OLDEST_GIT))} or newer is needed, and this is {version}")
        data, common = Git(path).line("rev-parse", "--absolute-git-dir", "--git-common-dir").split("\n")
        self.common = (path / common).resolve()
        self.git = Git(path, f"--git-dir={data}")  # looked up once: nothing in the folder changes the place later
        self.object_format = self.git.line("rev-parse", "--show-object-format")
        self.commit("HEAD")

    def commit(self, name: str) -> str:
        """Return the id of the commit that `name` refers to. Raises GitError if there is none."""
        if found := self.git.line("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", ok=(0, 1, 128)):
            return found
        raise GitError(f"no commit {name} in {self.path}")

    @property
    def names(self) -> tuple[str, ...]:
        """The URLs of its remotes."""
        listed = self.git.line("config", "--local", "--get-regexp", r"^remote\..*\.url$", ok=(0, 1))
        return tuple(line.partition(" ")[2] for line in listed.splitlines())

    def find(self, name: str) -> str:
        """Return the id of the commit `name`. An id that is missing here is fetched from the remotes."""
        try:
            return self.commit(name)
        except GitError as error:
            if not FULL_ID.fullmatch(name):
                raise UnknownCommit(str(error)) from error
        reasons: list[GitError] = []
        for url in self.names:
            try:
                Remote(url).fetch(self.common, name)
                return self.commit(name)
            except GitError as error:
                reasons.append(error)
        if all(isinstance(reason, UnknownCommit) for reason in reasons):
            remotes = ", ".join(map(without_users, self.names)) or "it has none"
            raise UnknownCommit(f"base commit {name} is not in {self.path}, nor on its remotes ({remotes})")
        raise GitError("; ".join([f"no commit {name} in {self.path}", *map(str, reasons)]))

    def has_on_a_branch(self, commit: str) -> bool:
        """Return whether a branch that no plan made contains `commit`; a commit of a fork is on none."""
        words = ("for-each-ref", f"--contains={commit}", "--format=%(refname)", "refs/heads", ORIGIN)
        return any(not is_of_a_plan(name) for name in self.git.line(*words).splitlines())

    def ref_of(self, plan_id: str) -> str:
        """Return the ref with the landed changes of the plan, as in outcomes."""
        return branch_of(plan_id)

    def target_tip(self, _begin: str) -> str | None:
        """Return None: no change is delivered from here, so no target branch is known."""
        return None

    def tip(self, plan_id: str) -> str | None:
        """Return the last commit of the plan's branch; None if there is no branch."""
        with suppress(GitError):
            return self.commit(branch_of(plan_id))
        return None

    def start(self, plan_id: str, base: str | None) -> str:
        """Return the tip of the plan's branch, which begins at `base` or HEAD."""
        while not (tip := self.tip(plan_id)):
            first = self.find(base or "HEAD")
            if self.move(plan_id, first, ""):
                return first
        return tip

    def receive(self, pack: bytes) -> None:
        """Add the objects of `pack`, after git has checked each of them."""
        self.git("unpack-objects", "-q", "--strict", stdin=pack)

    def move(self, plan_id: str, to: str, expected: str) -> bool:
        """Move the plan's branch from `expected` ("" for a new branch). Returns False if another process moved it."""
        try:
            self.git("update-ref", "-m", "planner", branch_of(plan_id), to, expected)
        except GitError:
            if (self.tip(plan_id) or "") == expected:
                raise
            return False
        return True


class Store:
    """A controller's own git directory in `home`, which no agent can access.

    New objects of an attempt are stored separately, and deleted at the next attempt.
    """

    def __init__(self, home: Path, source: Repository) -> None:
        self._source = source
        self.data, self._made, self._blobs = home / "store", home / "made", home / "blobs"
        self.index = home / "index"  # of the last checkout
        apart = {
            "GIT_OBJECT_DIRECTORY": str(self._made),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(self.data / "objects"),
        }
        self._fetching = Git(home, f"--git-dir={self.data}", environment={"GIT_ALLOW_PROTOCOL": "file"})
        self.git = Git(home, f"--git-dir={self.data}", environment={**apart, "GIT_INDEX_FILE": f"{self.index}.made"})
        self._checkout = {**apart, "GIT_INDEX_FILE": str(self.index)}
        self._begin()

    def _begin(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        self._there: set[str] = set()
        self._fetching("init", "--quiet", "--bare", f"--object-format={self._source.object_format}", str(self.data))
        (self.data / "info").mkdir(exist_ok=True)
        (self.data / "info/attributes").write_text(NEUTRAL)

    def fetch(self, commit: str, name: str) -> None:
        """Fetch `commit` with some of its history, as the ref `name`; the next fetch can build on it."""
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
        """Delete the objects of the last attempt."""
        shutil.rmtree(self._made, ignore_errors=True)
        self._made.mkdir()

    def check_out(self, commit: str, root: Path) -> None:
        """Write the files of `commit` into `root`; all other files there must have been removed before."""
        git = Git(root, f"--git-dir={self.data}", f"--work-tree={root}", environment=self._checkout)
        # The files were handed over to their user since then, which changed their marks; `snapshot` has compared those.
        known = ("-c", "core.trustctime=false", "-c", "core.checkStat=minimal")
        git("-c", "core.bare=false", *known, "read-tree", "--reset", "-u", commit)

    def files(self, commit: str) -> Mapping[bytes, TreeEntry]:
        """Return the files of `commit`."""
        lines = (line.split(b"\t", 1) for line in self.git("ls-tree", "-r", "-z", commit).split(b"\0") if line)
        return {path: (about[:6], about.rsplit(b" ", 1)[1]) for about, path in lines}

    def tree(self, changed: Mapping[bytes, tuple[bytes, bytes] | None]) -> str:
        """Return the tree that differs from the last checkout by `changed`: mode and content, or None for a removal."""
        shutil.copyfile(self.index, f"{self.index}.made")
        null = b"0" * (64 if self._source.object_format == "sha256" else 40)
        blobs = self._write({path: new[1] for path, new in changed.items() if new})
        gone = b"".join(b"0 %s\t%s\0" % (null, path) for path, new in changed.items() if not new)
        new = b"".join(b"%s %s\t%s\0" % (new[0], blobs[path], path) for path, new in changed.items() if new)
        self.git("update-index", "-z", "--index-info", stdin=gone + new)
        return self.git.line("write-tree")

    def _write(self, contents: Mapping[bytes, bytes]) -> Mapping[bytes, bytes]:
        """Write blobs into the store, and return their ids by path."""
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

    def merge(self, base: str, theirs: str, tree: str) -> str:
        """Return `tree`, which is based on `base`, merged into the commit `theirs`. Raises GitError on a conflict.

        Both sides become children of `base`, so that git uses it however many commits are between them.
        """
        sides = (self.commit(f"{theirs}^{{tree}}", base, "theirs"), self.commit(tree, base, "ours"))
        return self.git.line("merge-tree", "--write-tree", "--no-messages", *sides).split("\n")[0]

    def pack(self, commit: str, known: str) -> bytes:
        """Return a pack of `commit` with all objects that the commit `known` does not have."""
        return self.git("pack-objects", "--revs", "--stdout", "-q", stdin=f"{commit}\n^{known}\n".encode())

    def keep(self, commit: str, pack: bytes) -> None:
        """Add the objects of a landed commit, so that it need not be fetched."""
        self._fetching("index-pack", "--stdin", stdin=pack)
        self._there.add(commit)
