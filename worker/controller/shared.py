"""Clones made from a URL and kept; a plan's branch is the ref `refs/planner/<plan>` of the remote, for all hosts.

That ref is read before a step. Afterwards it moves from that commit to the verified one, or does not move. No workflow
runs for such a ref, and only deliveries write other refs of the remote. The clone's own refs only cache it.
"""

from __future__ import annotations

import fcntl
import logging
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from worker.controller.readiness import RemoteTrouble, UnknownCommit
from worker.controller.remote import FULL_ID, Remote, without_users
from worker.controller.repository import HISTORY, NEUTRAL, ORIGIN, PLANS, Repository, branch_of, is_of_a_plan
from worker.host.git import Git, GitError

HEADS = "refs/heads/"
ALL_HEADS = f"+{HEADS}*:{ORIGIN}*"
BASE = "refs/heads/planner-base"  # the base branch when it was last fetched
LOCK, TIDIED = "planner.lock", "planner.tidied"
DAY_S = 86400
TIDY_S = DAY_S
SHA256_CHARS = 64
UNADVERTISED = "unadvertised object"  # of a server with an old protocol, which only sends commits of its refs
ALL_HISTORY = 2**31 - 1  # git's number for the whole history
GRACE = "--prune=2.hours.ago"  # objects of live attempts have no ref yet

log = logging.getLogger("planner.controller")


def shared_ref(plan_id: str) -> str:
    """Return the remote's ref with a plan's verified changes."""
    return f"refs/planner/{plan_id}"


def accepted_ref(plan_id: str) -> str:
    """Return the remote's ref that keeps the accepted commits during a landing."""
    return f"refs/planner/accepted/{plan_id}"


class SharedRepository(Repository):
    """The clone of `remote` at `path`; plans begin at its branch `base`, or at the remote's default branch.

    Raises GitError if there is no clone yet and none can be made.
    """

    def __init__(self, path: Path, remote: Remote, base: str | None = None, keep_days: int = 30) -> None:
        self._remote, self._base, self._keep_days = remote, base, keep_days
        self._on_branches: set[str] = set()  # commits that were found on branches
        self._wanted = f"+{f'refs/heads/{base}' if base else 'HEAD'}:{BASE}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _locked(path.with_suffix(".lock")):
            if not path.exists():
                self._make(path)
            # A change has the same digest here as where it was verified, regardless of attributes in the files.
            (path / "info").mkdir(exist_ok=True)
            (path / "info/attributes").write_text(NEUTRAL)
        super().__init__(path)

    def _make(self, path: Path) -> None:
        """Make the clone in a temporary folder, and move it to its place when it is complete."""
        with TemporaryDirectory(dir=path.parent, prefix="new-") as folder:
            new = Path(folder) / "clone"
            first = self._remote(None, "ls-remote", "--", self._remote.url).partition("\t")[0]
            form = "sha256" if len(first) == SHA256_CHARS else "sha1"
            Git(Path(folder))("init", "--quiet", "--bare", f"--object-format={form}", str(new))
            Git(Path(folder), f"--git-dir={new}")("symbolic-ref", "HEAD", BASE)
            self._remote.fetch(new, self._wanted, depth=HISTORY)
            (new / TIDIED).touch()
            new.rename(path)

    @property
    def names(self) -> tuple[str, ...]:
        """The URL of the remote."""
        return (self._remote.url,)

    def find(self, name: str) -> str:
        """Return the id of the commit `name`, which is fetched if it is missing. Raises GitError if there is none."""
        if name == "HEAD":
            self._fetch(self._wanted, depth=HISTORY)
            return self.commit(name)
        with suppress(GitError):
            return self.commit(name)
        try:
            self._fetch_commit(name)
            with suppress(GitError):
                return self.commit(f"{ORIGIN}{name}")
            return self.commit(name)
        except RemoteTrouble:
            raise
        except GitError as error:
            raise UnknownCommit(f"base commit {name} is not on the remote {without_users(self._remote.url)}") from error

    def _fetch_commit(self, name: str) -> None:
        """Fetch a commit by its id. For a branch or the start of an id, fetch all branches."""
        if not FULL_ID.fullmatch(name):
            self._fetch(ALL_HEADS)
            return
        try:
            self._fetch(name, depth=HISTORY)
        except RemoteTrouble as trouble:
            if UNADVERTISED not in str(trouble):
                raise
            self._fetch(ALL_HEADS, depth=ALL_HISTORY)

    def ref_of(self, plan_id: str) -> str:
        """Name the ref of the remote."""
        return shared_ref(plan_id)

    def start(self, plan_id: str, base: str | None) -> str:
        """Return the current tip of the plan's branch at the remote; it begins at `base` or at the base branch."""
        self.look_up(plan_id)
        return super().start(plan_id, base)

    def look_up(self, plan_id: str) -> str | None:
        """Return the current tip of the plan's branch at the remote; None if there is no branch."""
        self._tidy()
        return self._refresh(plan_id)

    def move(self, plan_id: str, to: str, expected: str) -> bool:
        """Move the plan's branch of the remote from `expected`. Returns False if another process has moved it.

        Raises RemoteTrouble if the remote refuses access or does not answer.
        """
        try:
            self.push(shared_ref(plan_id), to, expected)
        except RemoteTrouble:
            found = self._refresh(plan_id)
            if found != to and (found or "") == expected:
                raise
            return found == to  # the answer was lost, and not the push
        self._remember(plan_id, to)
        return True

    def push(self, ref: str, to: str, expected: str) -> None:
        """Move a ref of the remote from `expected` to `to`.

        An empty `expected` creates the ref, an empty `to` deletes it.

        Raises RemoteTrouble.
        """
        words = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed")
        self._remote(
            self.common, "push", *words, f"--force-with-lease={ref}:{expected}", "--", self._remote.url, f"{to}:{ref}"
        )

    def drop(self, ref: str) -> None:
        """Delete a ref of the remote, if it exists. Raises RemoteTrouble."""
        if there := self.read(ref):
            self.push(ref, "", there)

    def _refresh(self, plan_id: str) -> str | None:
        found = self.read(shared_ref(plan_id))
        self._remember(plan_id, found)
        return found

    def read(self, ref: str) -> str | None:
        """Return the commit of a ref of the remote, which is fetched; None if there is no such ref."""
        listed = self._remote(self.common, "ls-remote", "--", self._remote.url, ref)
        found = listed.partition("\t")[0] or None
        if found:
            try:
                self.commit(found)
            except GitError:
                self._fetch(found)
        return found

    def open_changes(self, prefix: str, suffix: str, target: str) -> dict[str, int]:
        """Return the branches with this prefix and suffix that `target` lacks, with their number of changed lines.

        A branch counts until it is merged, in any way, or deleted. Raises RemoteTrouble.
        """
        self._fetch(ALL_HEADS, options=("--prune",))
        listed = self.git.line("for-each-ref", f"--format=%(refname:lstrip={ORIGIN.count('/')})", ORIGIN).splitlines()
        tip, found = f"{ORIGIN}{target}", dict[str, int]()
        for name in listed:
            if not (name.startswith(prefix) and name.endswith(suffix)) or name == target:
                continue
            base = self.git.line("merge-base", tip, f"{ORIGIN}{name}", ok=(0, 1))
            if not base:  # its base is older than the history here
                continue
            made = self.git("merge-tree", "--write-tree", "--no-messages", tip, f"{ORIGIN}{name}", ok=(0, 1))
            if made.split(b"\n")[0] != self.git("rev-parse", f"{tip}^{{tree}}").strip():
                rows = self.git.line("diff-tree", "-r", "--numstat", base, f"{ORIGIN}{name}").splitlines()
                found[name] = sum(int(count) for row in rows for count in row.split("\t")[:2] if count.isdigit())
        return found

    @property
    def base_branch(self) -> str:
        """The branch of the remote where plans begin. Raises RemoteTrouble."""
        if self._base:
            return self._base
        listed = self._remote(self.common, "ls-remote", "--symref", "--", self._remote.url, "HEAD")
        if not listed.startswith(f"ref: {HEADS}"):
            raise RemoteTrouble(
                f"The HEAD of {self._remote.url} names no branch: set `base` of this repository in the file of --repos."
            )
        return listed.partition("\t")[0].removeprefix(f"ref: {HEADS}")

    def has_on_a_branch(self, commit: str) -> bool:
        """Return whether `commit` is on a branch of the remote that no plan made. Raises RemoteTrouble.

        The remote is asked each time until the commit is on one.
        """
        if commit not in self._on_branches:
            found = super().has_on_a_branch(commit) or any(
                not is_of_a_plan(name) for name in self.branches_with(commit, self.base_branch)
            )
            if not found:
                return False
            self._on_branches.add(commit)
        return True

    def target_tip(self, _begin: str) -> str | None:
        """Return the tip of the only branch that contains the commit; None if several branches contain it, or none."""
        found = self.branches_with(_begin, self.base_branch)
        return self.read(f"{HEADS}{found[0]}") if len(found) == 1 else None

    def branches_with(self, commit: str, likely: str) -> list[str]:
        """Return the remote's branches that contain `commit`: only `likely`, if it is one of them.

        Raises RemoteTrouble.
        """
        self._fetch(f"+{HEADS}{likely}:{ORIGIN}{likely}")
        if likely in self._with(commit):
            return [likely]
        # It is far in the past, or only on other branches. Commits that are older than it cannot contain it.
        since = int(self.git.line("show", "--no-patch", "--format=%ct", commit)) - DAY_S
        self._fetch(ALL_HEADS, options=("--prune",))
        if (self.common / "shallow").exists():
            with suppress(RemoteTrouble):  # none is so young
                self._fetch(ALL_HEADS, options=(f"--shallow-since={since}",))
        found = self._with(commit)
        return [likely] if likely in found else found

    def _with(self, commit: str) -> list[str]:
        words = ("for-each-ref", f"--contains={commit}", f"--format=%(refname:lstrip={ORIGIN.count('/')})", ORIGIN)
        return self.git.line(*words).splitlines()

    def _remember(self, plan_id: str, commit: str | None) -> None:
        words = (branch_of(plan_id), commit) if commit else ("-d", branch_of(plan_id))
        with _locked(self.common / LOCK):
            self.git("update-ref", *words)

    def _fetch(self, *wanted: str, depth: int = 0, options: Sequence[str] = ()) -> None:
        with _locked(self.common / LOCK):
            self._remote.fetch(self.common, *wanted, depth=depth, options=options)

    def _tidy(self) -> None:
        """Once a day, delete the refs of plans that were inactive for long, here and at the remote."""
        mark, now = self.common / TIDIED, time.time()
        if not self._keep_days or (mark.exists() and now - mark.stat().st_mtime < TIDY_S):
            return
        mark.touch()
        form = "--format=%(committerdate:unix) %(objectname) %(refname) %(trailers:key=Plan,valueonly,separator=%2C)"
        for line in self.git.line("for-each-ref", form, PLANS).splitlines():
            written, commit, name, landed = f"{line} ".split(" ", 3)
            if int(written) < now - self._keep_days * DAY_S:
                plan_id = name.removeprefix(PLANS)
                self._forget(plan_id, commit, landed=landed.strip() == plan_id)
        with _locked(self.common / LOCK), suppress(GitError, subprocess.TimeoutExpired):
            self.git("gc", "--quiet", GRACE)

    def _forget(self, plan_id: str, commit: str, *, landed: bool) -> None:
        """Delete the refs of a plan in the clone, and those at the remote if the plan `landed`.

        If the remote refuses, the ref in the clone stays.
        """
        if landed:
            try:
                self.push(shared_ref(plan_id), "", commit)
            except RemoteTrouble:  # it is deleted or in use, or the remote refuses: take over its state
                with suppress(RemoteTrouble):
                    self._refresh(plan_id)
                return
            with suppress(RemoteTrouble):
                self.drop(accepted_ref(plan_id))
            log.info("plan_forgotten", extra={"plan_id": plan_id, "commit": commit})
        self._remember(plan_id, None)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Prevent other controllers of this host from fetching into the same clone."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
