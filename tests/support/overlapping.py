"""Plans of one repository in one memory store that may claim the same files; some grow as their test says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from schemas import codec
from schemas.command import Command
from schemas.step import PlannedStep
from tasks.features.breakers import breaker
from tasks.features.breakers.breaker import Terms, name_pause
from tasks.features.overlaps import NOTE
from tasks.plan.changeset import CountedFailure
from tasks.plan.file_claims import FileClaims
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.record.fold import Fold
from tasks.record.held_plan import HeldPlan
from tasks.rules.strategy import End, Expansion, LivePlan
from tests.support.growing import Script, goes_on
from tests.support.memory_store import MemoryStore
from tests.support.plans import PARTITION, Running, a_report, plan_id
from tests.support.replay import everything
from worker.store.file_claims import ClaimsAsk

REPO = "acme/shop"
FILES = [f"src/{name}.py" for name in "abcd"]


class Neighbours:
    """Plans by their number, each a Running."""

    def __init__(self) -> None:
        self.store = MemoryStore(PARTITION)
        self.plans: dict[str, Running] = {}
        self.born: dict[str, HeldPlan] = {}
        self.modes: dict[str, str] = {}
        self.grows: dict[tuple[str, str], Sequence[PlannedStep]] = {}  # what the end of a plan's step adds
        self.commands = 0
        self.script = Script(on_end=self._grow)

    def begin(
        self,
        *steps: PlannedStep,
        overlap: str | None = "wait",
        repo: str | None = REPO,
        tenant: str = "acme",
        delivery: Mapping[str, bool] | None = None,
    ) -> Running:
        """Begin a plan that may do up to eight steps at once."""
        name = plan_id(len(self.plans) + 1)
        kind = {"kind": "campaign", "draft": {"state": {}, "document": {"kind": "test"}}, "files": FILES}
        plan = Running(
            *steps,
            plan=name,
            store=self.store,
            repo=repo,
            tenant=tenant,
            overlap=overlap,
            max_parallel=8,
            delivery=delivery,
            **kind,
        )
        self.plans[name], self.modes[name] = plan, overlap or "wait"
        self.born[name] = deepcopy(self.store.held(name))
        return plan

    def _grow(self, live: LivePlan, end: End) -> Expansion | None:
        steps = self.grows.get((live.plan_id, end.step_id))
        return goes_on(*steps) if steps else None

    def succeed(self, plan: Running, step: str, adds: Sequence[PlannedStep] = ()) -> None:
        """Report an attempt's success, which adds steps to the plan."""
        if adds:
            self.grows[plan.plan_id, step] = adds
        plan.report(a_report(step, 1, plan.active[step].lease))

    def cancel(self, plan: Running) -> None:
        plan.obey(self.command("cancel", plan))

    def command(self, name: str, plan: Running, step: str | None = None) -> Command:
        self.commands += 1
        body: dict[str, Any] = {"command_id": f"c-{self.commands}", "command": name, "plan_id": plan.plan_id}
        body |= {"scope": "step" if step else "plan", "step_id": step, "actor": "ada", "reason": "why"}
        return Command.model_validate(body)

    def let_through(self, plan: Running) -> None:
        """Pause the repository by its breaker, which lets a step of the plan through."""
        failed = CountedFailure("a", True, plan.plan_id, "s", 1, "TEST_REGRESSION", "it broke")
        now = self.store.now
        tripped = breaker.find_trip([breaker.Failure(now, failed)], ("acme", REPO), now, Terms(plans=1))
        assert tripped
        given = breaker.give(tripped, [plan.plan_id], now)
        assert given
        self.store.hash(PARTITION.scopes)[name_pause("acme", REPO)] = given.pause(Terms())

    def sweep(self) -> None:
        """Look at every plan whose timer has run out, until none has."""
        while due := [name for name in self.store.due() if name in self.live]:
            for name in due:
                self.plans[name].look()

    @property
    def live(self) -> dict[str, Running]:
        return {name: plan for name, plan in self.plans.items() if plan.state not in PLAN_ENDS}

    def claims(self) -> FileClaims:
        """Return all claims, with the plans that hold them."""
        return self.store.whole_claims(ClaimsAsk("acme", REPO, FILES, deep=True))

    @property
    def claimed(self) -> dict[str, str]:
        """Return the plans that claim each file, in order."""
        return {file: claims for file, claims in self.claims().files.items() if file}

    def left(self) -> dict[str, Any]:
        """Return the keys of claims that are not empty."""
        return {key: value for key, value in self.store.keys.items() if key.startswith(PARTITION.claims) and value}

    def told(self, plan: Running) -> list[dict[str, Any]]:
        """Return the overlaps that the store keeps of a plan."""
        found: list[dict[str, Any]] = codec.loads(self.store.hash(plan.keys.steps).get(f"={NOTE}", b"[]"))
        return found

    def fold_again(self, name: str) -> None:
        """Fold the log of a plan again, from its creation on."""
        held = deepcopy(self.born[name])
        again = Fold(deepcopy(held))
        for line in self.plans[name].log[len(held.log) :]:
            again.fold(line)
        assert everything(again.plan) == everything(self.store.held(name))
