"""A plan's branch: a change becomes a commit of it, and the commits of a step are taken off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worker.controller import history
from worker.controller.history import PlanCommit
from worker.controller.repository import Repository, Store


@dataclass(frozen=True, slots=True)
class PlanBranch:
    """The branch of a plan in `repository`; commits are made in the `store`.

    Each time before the branch is moved, `confirm` is asked, and raises if the move is not wanted any more.
    """

    repository: Repository
    store: Store
    plan_id: str

    def commits(self, tip: str) -> list[PlanCommit]:
        """List the commits of the plan that end at `tip`, the newest first."""
        return history.commits(self.store.git, self.plan_id, tip)

    def take_off(self, step_id: str, base: str, confirm: Callable[[], object]) -> None:
        """Take the commits of `step_id` off; raises GitError where later ones need them."""
        while True:
            known, tip = self._fetch(base)
            first = history.without(self.store, self.commits(tip), step_id, tip)
            if first == tip or self._publish(first, tip, known, confirm):
                return

    def land(self, step_id: str, base: str, tree: str, message: str, confirm: Callable[[], object]) -> str:
        """Commit a `tree` that is made on `base`, rebased if siblings have moved the branch.

        Raises GitError on a conflict.
        """
        while True:
            known, tip = self._fetch(base)
            parent = history.without(self.store, self.commits(tip), step_id, tip)
            merged = tree if parent == base else self.store.merge(base, parent, tree)
            commit = self.store.commit(merged, parent, message)
            if self._publish(commit, tip, known, confirm):
                return commit

    def _fetch(self, base: str) -> tuple[str | None, str]:
        """Return the tip that the branch has, and `base` in its place where somebody has deleted it."""
        known = self.repository.tip(self.plan_id)
        tip = known or base
        self.store.fetch(tip, self.plan_id)
        return known, tip

    def _publish(self, commit: str, tip: str, known: str | None, confirm: Callable[[], object]) -> bool:
        """Move the branch from `known` to `commit`, which the store has made on `tip`; False if it has moved."""
        pack = self.store.pack(commit, tip)
        self.repository.receive(pack)
        confirm()
        if not self.repository.move(self.plan_id, commit, known or ""):
            return False
        self.store.keep(commit, pack)
        return True
