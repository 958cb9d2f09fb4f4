"""A plan's branch: adds a change as a commit, and removes the commits of a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from worker.controller import history
from worker.controller.history import PlanCommit
from worker.controller.repository import Repository, Store


@dataclass(frozen=True, slots=True)
class PlanBranch:
    """The branch of a plan in `repository`; commits are made in the `store`.

    Before each move of the branch, `confirm` is called, and raises if the move is no longer wanted.
    """

    repository: Repository
    store: Store
    plan_id: str

    def commits(self, tip: str) -> list[PlanCommit]:
        """Return the commits of the plan that end at `tip`, the newest first."""
        return history.commits(self.store.git, self.plan_id, tip)

    def take_off(self, step_id: str, base: str, confirm: Callable[[], object]) -> None:
        """Remove the commits of `step_id`. Raises GitError if later ones depend on them."""
        while True:
            known, tip = self._fetch(base)
            first = history.without(self.store, self.commits(tip), step_id, tip)
            if first == tip or self._publish(first, tip, known, confirm):
                return

    def land(self, step_id: str, base: str, tree: str, message: str, confirm: Callable[[], object]) -> str:
        """Commit a `tree` that is based on `base`, rebased if other steps have moved the branch.

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
        """Return the branch's tip or None, and the commit to start from: `base` if the branch was deleted."""
        known = self.repository.tip(self.plan_id)
        tip = known or base
        self.store.fetch(tip, self.plan_id)
        return known, tip

    def _publish(self, commit: str, tip: str, known: str | None, confirm: Callable[[], object]) -> bool:
        """Move the branch from `known` to `commit`, which the store has made on `tip`.

        Returns False if the branch has moved.
        """
        pack = self.store.pack(commit, tip)
        self.repository.receive(pack)
        confirm()
        if not self.repository.move(self.plan_id, commit, known or ""):
            return False
        self.store.keep(commit, pack)
        return True
