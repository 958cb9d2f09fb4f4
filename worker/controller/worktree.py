"""A controller's place of work: a clone for the agent, cleaned before each attempt, and read and committed after it.

The agent has the clone with a separate git directory, made again for each attempt. Our git never runs in it, and uses
the directory next to it (`repository.Store`). So an agent's changes to configuration, attributes, hooks, index or refs
cannot affect our git: it receives only names and bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from worker.controller import changes, clone_git, snapshot
from worker.controller.changes import MAX_CHANGE_BYTES, Changes, FileChange, IgnoreRules, PlacedFile
from worker.controller.instructions import Instructions, Trust, read_instructions
from worker.controller.permission import Permission
from worker.controller.plan_branch import PlanBranch
from worker.controller.private_folder import private_folder
from worker.controller.repository import SUBMODULE, Repository, Store, TreeEntry, branch_of
from worker.controller.setup import PROGRAMS, Setup, SetupResults, WrongResult, is_within, tops_of
from worker.controller.snapshot import Marks, TreeSnapshot
from worker.controller.wire import Spec
from worker.sandbox.user import PASSABLE, User

MAX_SHOWN_BYTES = 10 * 1024 * 1024  # of a diff that is only shown
MAX_REFS = 1000


@contextmanager
def worktree(
    repository: Repository, name: str, parent: Path | None = None, user: User | None = None
) -> Iterator[Worktree]:
    """Make a clone of `repository` in a new private directory under `parent` while the block lasts.

    If another `user` works in it, that user owns the clone and cannot access our files next to it.
    """
    with private_folder(name, parent) as home:
        yield Worktree(repository, home, user)


class Worktree:
    """The clone at `root`, and our records about its state."""

    def __init__(self, repository: Repository, home: Path, user: User | None = None) -> None:
        self._repository, self._user = repository, user
        self.root = home / "clone" / (repository.path.resolve().name.removesuffix(".git") or "repository")
        ours = home / "ours"
        ours.mkdir(mode=0o700)
        if user:
            home.chmod(PASSABLE)
        self.names = repository.names
        self._clock = ours / "clock"
        self._store = Store(ours, repository)
        self._ignored = IgnoreRules(ours, self._store, repository)
        self._files: Mapping[bytes, TreeEntry] = {}
        self._snapshot = TreeSnapshot()
        self._taken: Mapping[bytes, TreeEntry | None] = {}  # the change of this attempt
        self._remembered: Mapping[bytes, TreeEntry] = {}  # files of another commit
        self._setups = SetupResults(ours / "setups")
        self._set_up: tuple[bytes, ...] = ()  # the results of the setup command in the clone
        self._is_used = False  # whether an agent, or tests that no agent gets, were in the folder
        self._moved: frozenset[str] = frozenset()  # refs that it made in the folder before
        self._plan_id = self._base = ""

    @property
    def writable(self) -> tuple[Path, ...]:
        """The paths that an agent and its verification may write: the clone with its own git directory."""
        return (self.root,)

    def reset(self, plan_id: str, base_sha: str | None, *, at: str | None = None) -> None:
        """Make the clone equal to the plan's branch, or to the commit `at`, regardless of an agent's changes."""
        commit = self._repository.find(at) if at else self._repository.start(plan_id, base_sha)
        self._plan_id, self._base = plan_id, commit
        self._store.fetch(self._base, plan_id)
        self._store.forget()
        self._taken, self._moved = {}, frozenset()
        self._files = self._store.files(self._base)
        self._clear()

    def target_tip(self, begin: str) -> str | None:
        """Return the tip of the plan's target branch, if it is another commit than `begin`."""
        first = self._repository.find(begin)
        tip = self._repository.target_tip(first)
        return None if tip == first else tip

    def give_to_agent(self) -> None:
        """Record that an agent works in the folder from now on, so that nothing is verified there later."""
        self._is_used = True

    def make_anew(self) -> None:
        """Make a new folder with the attempt's start commit and the taken change; no other file of an agent remains.

        The results of a setup command have to be restored afterwards. Raises OSError.
        """
        self._moved, self._is_used = frozenset(self.moved_refs()), True
        self._clear()
        self._put(self._files_taken())

    def lay_out(self, files: Mapping[bytes, PlacedFile | None]) -> None:
        """Write further `files` into the folder, such as held-out tests. Raises OSError.

        The next reset makes a new folder, so that no later attempt finds them.
        """
        self._put(files)
        self._is_used = True

    def remember(self, commit: str) -> None:
        """Make the files of another commit available. Raises GitError, or UnknownCommit if the commit is not found."""
        found = self._repository.find(commit)
        self._store.fetch(found, f"{self._plan_id}-base")
        self._store.fetch(self._base, self._plan_id)  # which the store may have dropped for it
        self._remembered = self._store.files(found)

    @property
    def paths_remembered(self) -> tuple[str, ...]:
        """The files of the remembered commit."""
        return tuple(path.decode(errors="replace") for path in self._remembered)

    @property
    def paths_taken(self) -> tuple[str, ...]:
        """The files of the attempt's start commit after the taken change."""
        return tuple(path.decode(errors="replace") for path in self._now_taken())

    def differing(self, is_wanted: Callable[[str], bool]) -> dict[str, FileChange]:
        """Return the wanted files that differ between the remembered commit and the taken change."""
        return changes.differing(self._store.git, self._remembered, self._now_taken(), is_wanted)

    def _now_taken(self) -> dict[bytes, TreeEntry]:
        return {path: entry for path, entry in {**self._files, **self._taken}.items() if entry}

    def _clear(self) -> None:
        """Make the clone equal to the commit of the reset, in a new folder if this one was used by an agent."""
        if self._is_used:
            self._begin()
        try:
            snapshot.clean(self.root, self._snapshot)
        except (OSError, RecursionError):
            self._begin()
        self._store.check_out(self._base, self.root)
        if self._user:
            self._user.own(self.root)
        self._snapshot = snapshot.take(self.root, self._clock)
        self._ignored.read(self._files)
        clone_git.renew(self.root, self._store, self._plan_id, self._base, self._ignored.everywhere)
        if self._user:
            self._user.own(self.root / ".git")

    def _begin(self) -> None:
        snapshot.discard(self.root)
        self._store.index.unlink(missing_ok=True)
        self._snapshot, self._is_used = TreeSnapshot(), False
        self.root.mkdir(parents=True)
        if self._user:
            self.root.parent.chmod(PASSABLE)

    def set_up(self, setup: Setup, run: Callable[[], None], *, anew: bool = False) -> None:
        """Put the results of the setup command into the clone.

        Raises OSError if a result cannot be made, or if its copy was changed.

        If no results are stored for these lock files, `run` runs the command first. It runs on the attempt's start
        commit. With `anew`, it runs on the manifests and lock files as the attempt has left them.
        """
        named = tuple(map(os.fsencode, setup.results))
        if tracked := next((path for path in self._files if is_within(path, named)), None):
            raise WrongResult(f"{os.fsdecode(tracked)} is below setup_results, and is a file of the commit")
        key = setup.key(self._now_taken() if anew else self._files, anew=anew)
        if not self._setups.has(key):
            self._make(key, named, run, self.taken(), anew=anew)
        self._set_up = self._setups.tops(key)
        self._setups.put_back(key, self.root)
        if self._user:
            self._user.own(self.root)
        now = snapshot.take(self.root, self._clock)
        self._setups.placed(key, now)
        # Changes of an agent since the reset stay visible, and restored results are no changes.
        kept = {path: marks for path, marks in now.files.items() if is_within(path, self._set_up)}
        folders = {path: mode for path, mode in now.folders.items() if is_within(path, self._set_up)}
        files_then = {path: marks for path, marks in self._snapshot.files.items() if not is_within(path, self._set_up)}
        then = {path: mode for path, mode in self._snapshot.folders.items() if not is_within(path, self._set_up)}
        self._snapshot = replace(self._snapshot, files=files_then | kept, folders=then | folders)

    def _make(
        self,
        key: str,
        named: tuple[bytes, ...],
        run: Callable[[], None],
        taken: Mapping[str, PlacedFile | None],
        *,
        anew: bool,
    ) -> None:
        """Run a setup in a clean clone and store its results; afterwards restore the change `taken`."""
        self._clear()
        if anew:
            self.place(taken)
        run()
        now = snapshot.take(self.root, self._clock)
        known = (*self._files, *(path.encode() for path in taken))
        new = [path for path in (*now.files, *now.folders) if path not in self._files]
        tops = named or tops_of(new, known)
        if missing := next((top for top in named if not any(is_within(path, (top,)) for path in new)), None):
            raise WrongResult(f"the setup has not made {os.fsdecode(missing)}")
        self._setups.keep(key, self.root, tuple(top for top in tops if not changes.caches((top,))), now)
        self._clear()
        self.place(taken)

    def instructions(self, spec: Spec, trust: Trust) -> Instructions:
        """Return the repository's instructions for agents, as of the plan's first commit. Raises GitError."""
        return read_instructions(self._repository, spec, self._base, trust)

    @property
    def programs(self) -> tuple[str, ...]:
        """The folders of programs that a setup has made in the clone, as package environments have them."""
        made = [os.fsdecode(top) for top in self._set_up]
        found = (self.root / top / name for top in made for name in PROGRAMS.get(top.rpartition("/")[2], ()))
        return tuple(str(folder) for folder in found if folder.is_dir())

    def links_out(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the paths that are, or are below, a link out of the clone."""
        return tuple(path for path in paths if changes.leads_out(self.root, path))

    def place(self, files: Mapping[str, PlacedFile | None]) -> None:
        """Write `files` to their paths, None for a removal, without following links. Raises OSError."""
        self._put({path.encode(): file for path, file in files.items()})

    def _put(self, files: Mapping[bytes, PlacedFile | None]) -> None:
        for path, file in files.items():
            with suppress(FileNotFoundError, NotADirectoryError):
                snapshot.remove(self.root, path)
            if file:
                snapshot.write(self.root, path, *file)
        if self._user:
            self._user.own(self.root)

    def put_back(self, paths: Iterable[str]) -> None:
        """Restore files from the commit of the reset. Raises OSError."""
        known = self.entries(paths)
        blob = partial(self._store.git, "cat-file", "blob")
        self.place({path: (entry[0], blob(entry[1].decode())) if entry else None for path, entry in known.items()})

    def taken(self) -> dict[str, PlacedFile | None]:
        """Return the files of the change that was taken last; None for removed ones."""
        return {path.decode(errors="replace"): file for path, file in self._files_taken().items()}

    def _files_taken(self) -> dict[bytes, PlacedFile | None]:
        blob = partial(self._store.git, "cat-file", "blob")
        return {path: entry and (entry[0], blob(entry[1].decode())) for path, entry in self._taken.items()}

    @property
    def paths(self) -> Iterator[str]:
        """The files of the attempt's start commit."""
        return (path.decode(errors="replace") for path in self._files)

    def entries(self, paths: Iterable[str]) -> dict[str, TreeEntry | None]:
        """Return git's entries for `paths` in the attempt's start commit; None for a path that it does not have."""
        return {path: self._files.get(path.encode()) for path in paths}

    def changes(self, permission: Permission) -> Changes:
        """Take every change since the reset; ignored files only if the permission names them.

        Commits of an agent count by their files. If a change is not allowed or cannot be landed, it has no tree:
        nothing of it is written to our objects.
        """
        now = snapshot.take(self.root, self._clock)
        wanted = {path.encode() for path in permission.named}
        touched = {path: now.files.get(path) for path in sorted({*self._changed(now), *self._new(now, wanted)})}
        found = changes.name_changes(self._base, touched, self._files, self.root)
        if clone_git.leads_out(self.root):
            found = replace(found, escaping=(".git", *found.escaping))
        if found.escaping or not all(map(permission.allows, found.touched)) or not touched:
            return found
        if why := changes.unfit(touched):
            return replace(found, unfit=why)
        new = {path: (marks.git_mode, self._content(path)) if marks else None for path, marks in touched.items()}
        self._taken = {path: (file[0], self._id(file[1])) if file else None for path, file in new.items()}
        return changes.measure(self._store.git, replace(found, tree=self._store.tree(new)))

    def added_lines(self, change: Changes) -> dict[str, bytes]:
        """Return the lines that a change adds to each file."""
        return changes.added_lines(self._store.git, change.base, change.tree) if change.tree else {}

    def texts(self, change: Changes, is_wanted: Callable[[str], bool]) -> Iterator[tuple[str, str | None, str | None]]:
        """Yield the texts of the wanted files before and after a change."""
        return changes.texts(self._store.git, change.base, change.tree, is_wanted)

    def texts_at_reset(self, paths: Iterable[str]) -> dict[str, str]:
        """Return the texts of files in the commit of the reset, of those that exist."""
        known = self.entries(paths)
        found = changes.blobs(self._store.git, dict.fromkeys(entry[1] for entry in known.values() if entry))
        return {
            path: found[entry[1]].decode(errors="replace")
            for path, entry in known.items()
            if entry and entry[1] in found
        }

    def diff(self, change: Changes | None) -> bytes:
        """Return the diff of an attempt: of `change`, or of the clone now if `change` has no tree.

        The latter is never landed. Files that git cannot store, or that are too large, are only named.
        """
        if change and (change.tree or not change.touched):
            return changes.patch(self._store.git, change.base, change.tree) if change.tree else b""
        now = snapshot.take(self.root, self._clock)
        shown: dict[bytes, tuple[bytes, bytes] | None] = {}
        left, room = [], MAX_SHOWN_BYTES
        for path in sorted({*self._changed(now), *self._new(now, ())}):
            marks = now.files.get(path)
            if changes.unfit({path: marks}) or (marks and marks.size > room):
                left.append(path)
                continue
            shown[path] = (marks.git_mode, self._content(path)) if marks else None
            room -= marks.size if marks else 0
        names = "".join(f"# changed, and not shown: {path!r}\n" for path in left).encode()
        return names + changes.patch(self._store.git, self._base, self._store.tree(shown)) if shown else names

    def altered_files(self) -> tuple[str, ...]:
        """Return the changed files that differ from their state when the change was taken."""
        if not self._taken:
            return ()
        now = snapshot.take(self.root, self._clock)
        wrong = (path for path, entry in self._taken.items() if self._entry(path, now.files.get(path)) != entry)
        return tuple(path.decode(errors="replace") for path in wrong)

    def moved_refs(self) -> tuple[str, ...]:
        """Return the refs in the clone other than the plan's branch; only the agent can have made them."""
        try:
            loose, _ = snapshot.contents(self.root, b".git", b"refs")
            found = {f"refs/{path.decode(errors='replace')}" for path in loose} | clone_git.packed_refs(self.root)
        except OSError:
            return ()  # the agent damaged its git directory
        return tuple(sorted((found | self._moved) - {branch_of(self._plan_id)}))[:MAX_REFS]

    def landed(self, step_id: str) -> Changes | None:
        """Return the change that `step_id` has landed on the plan's branch before this attempt; None if there is none.

        If the step has several commits, return the last, marked as unfit: no attempt has verified them together.
        """
        own = [each for each in self._branch.commits(self._base) if each.step_id == step_id]
        if not own:
            return None
        self._taken = {}
        found = changes.landed(self._store.git, own[0].parent, own[0].commit)
        return replace(
            found, escaping=self.links_out(found.touched), unfit="the step has several commits" if own[1:] else None
        )

    def take_off(self, step_id: str, confirm: Callable[[], object]) -> None:
        """Remove the commits of `step_id` from the plan's branch. Raises GitError if later ones depend on them."""
        self._branch.take_off(step_id, self._base, confirm)

    def land(self, step_id: str, change: Changes, message: str, confirm: Callable[[], object]) -> str:
        """Commit `change` to the plan's branch as `PlanBranch.land` does."""
        return self._branch.land(step_id, change.base, change.tree, message, confirm)

    @property
    def ref(self) -> str:
        """The ref with the landed changes of the plan."""
        return self._repository.ref_of(self._plan_id)

    @property
    def _branch(self) -> PlanBranch:
        return PlanBranch(self._repository, self._store, self._plan_id)

    def _changed(self, now: TreeSnapshot) -> Iterator[bytes]:
        """Yield the files of the start commit that differ now; a submodule differs if it is not an empty folder."""
        filled = {path.rpartition(b"/")[0] for path in (*now.files, *now.folders)}
        for path, entry in self._files.items():
            marks = now.files.get(path)
            if entry[0] == SUBMODULE:
                if path not in now.folders or path in filled:
                    yield path
            elif not self._snapshot.surely_has(path, marks) and self._entry(path, marks) != entry:
                yield path

    def _new(self, now: TreeSnapshot, wanted: Collection[bytes]) -> Iterator[bytes]:
        """Yield the files that the commit does not have; ignored files only if they are `wanted`."""
        submodules = tuple(path + b"/" for path, entry in self._files.items() if entry[0] == SUBMODULE)
        new = [path for path in now.files if path not in self._files and not path.startswith(submodules)]
        new = [path for path in new if not is_within(path, self._set_up)]
        ignored = self._ignored.among(new)
        yield from (changes.up_to_git_dir(path) for path in new if path in wanted or path not in ignored)

    def _entry(self, path: bytes, marks: Marks | None) -> TreeEntry | None:
        """Return git's entry for a file: None if it does not exist, without content if git cannot store it."""
        if marks is None:
            return None
        try:
            return marks.git_mode, self._id(self._content(path))
        except OSError:
            return marks.git_mode, b""

    def _content(self, path: bytes) -> bytes:
        return snapshot.read(self.root, path, MAX_CHANGE_BYTES)

    def _id(self, content: bytes) -> bytes:
        return snapshot.object_id(b"blob", content, self._repository.object_format)
