"""Which drafter a goal gets, and asking it: at most once for each question, whatever happens to the worker."""

from __future__ import annotations

from collections.abc import Callable

from redis import Redis

from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.planning.draft import Consult, Drafted, Rejected, Setting
from tasks.policy.validation import rejected
from worker.drafters import drafter_of
from worker.drafters.artifacts import Artifacts
from worker.drafters.base import Drafter
from worker.drafters.choice import choose
from worker.drafters.recorded import Recorded
from worker.settings import Settings
from worker.store.keys import Partition

GRACE_S = 60.0  # for a worker that takes the goal over, beyond the time of every question


class Consulting:
    """Asks drafters on behalf of goals. One per process; not for several threads at once."""

    def __init__(self, client: Redis, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._drafters: dict[str, Drafter] = {}
        directory = settings.planning_debug_dir
        modes = {"validation": settings.planning_validation_mode, "schema": settings.planning_schema_mode}
        self._artifacts = Artifacts(directory, modes) if directory else None

    @property
    def patience_ms(self) -> int:
        """How long a plan waits for its drafter at the most."""
        here = self._settings
        longest = max(here.llm_timeout_s, here.cli_timeout_s, here.planning_timeout_seconds)
        return int(1000 * (longest * here.planning_max_attempts + GRACE_S))

    def setting(self, goal: Goal) -> Setting | Rejected:
        """Say who drafts for `goal`, and with which options of the operator's; or that it cannot have whom it asks."""
        drafter = choose(goal.kind, goal.drafter, self._settings)
        if isinstance(drafter, FieldError):
            return rejected(drafter.code, (drafter,))
        return Setting(drafter=drafter, options=self._settings.planning)

    def ask(
        self,
        drafter: str,
        home: Partition,
        plan_id: str,
        number: int,
        question: Consult,
        stop: Callable[[], bool],
    ) -> Drafted:
        """Ask the question of this number about a plan, or take the answer that was recorded."""
        if drafter not in self._drafters:
            made = drafter_of(self._settings, drafter)
            assert made is not None  # noqa: S101 (no strategy consults `none` or `queue`)
            self._drafters[drafter] = made
        recorded = Recorded(self._client, home, self._drafters[drafter], self._artifacts)
        return recorded.ask(plan_id, number, question, stop)
