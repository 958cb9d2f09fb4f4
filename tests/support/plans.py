"""Plans for tests: small builders, and a plan in the memory store that is driven as the engine drives one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, Self

from schemas import codec
from schemas.base import Mode, RiskLevel, StepType, Verdict
from schemas.command import Command
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.step import ControllerTaskSpec, PlannedStep, StepContext, StepEstimate, VerifyTool
from schemas.stored import Attempt, PlanRecord, StepStatus
from schemas.stored.step import TEXTS, read_texts
from tasks.base.errors import EVERY_STEP, LEASES, NeedsClaims, NeedsSteps
from tasks.base.policy import BUILT_IN, Policy
from tasks.features import outcome_memory
from tasks.features.failed_changes import FAILED_DIFFS
from tasks.features.flaky_tests import MEMORY
from tasks.handlers import commands, goals, outcomes, upkeep
from tasks.handlers.upkeep import NO_CLOCKS
from tasks.memory.flaky_tests import NOTHING
from tasks.plan.changeset import Changeset
from tasks.plan.file_claims import asked_for, claimed_by
from tasks.plan.lifecycle import PLAN_ENDS
from tasks.plan.report import Report
from tasks.plan.snapshot import READY_PAGE, Clocks, Snapshot
from tasks.policy.plan_seed import PlanSeed
from tasks.rules.strategy import Draft
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, keep_contracts
from tasks.toolchain.command_lines import render
from tests.support import plain
from tests.support.asking import Asked
from tests.support.documented import TOOLS_EXAMPLE as TOOLS_EXAMPLE
from tests.support.memory_store import EPOCH_MS, MemoryStore
from tests.support.stored_steps import facts_of
from worker.engine.router import MAX_PAGE
from worker.store.file_claims import ClaimsAsk
from worker.store.keys import Partition
from worker.store.plans import Ask, Write

PARTITION = Partition(0)
NO_HALT = {
    "consecutive_failures": 1000,
    "identical_failures": 1000,
    "flaky_flips": 1000,
    "lease_deaths": 1000,
    "max_new_files": 10_000,
    "max_growth_kb": 10**6,
}
PYTEST = VerifyTool(tool="pytest", argv=("pytest",), timeout_s=300)


def plan_id(number: int = 1) -> str:
    return f"plan_00-{number:032x}"


PLAN = plan_id()


def a_step(
    step_id: str,
    *after: str,
    files: Sequence[str] | None = None,
    risk: RiskLevel = RiskLevel.LOW,
    retries: int = 2,
    tokens: int = 1000,
    cycles: int = 1,
    tools: tuple[VerifyTool, ...] = (),
    queue: str = "default",
) -> PlannedStep:
    """Return a patch step that waits for the steps `after`; it has its own file unless `files` says otherwise."""
    return PlannedStep(
        step_id=step_id,
        title=step_id,
        intent="Make it right",
        allowed_files=tuple((f"src/{step_id}.py",) if files is None else files),
        risk_level=risk,
        controller_task_spec=ControllerTaskSpec(type=StepType.PATCH),
        mode=Mode.PATCH,
        depends_on=after,
        verify=render(tools),
        verify_tools=tools,
        rollback_hint=None if risk is RiskLevel.LOW else "Discard the change.",
        retry_limit=retries,
        queue=queue,
        estimate=StepEstimate(tokens=tokens, patch_cycles=cycles),
    )


def a_check(step_id: str, *after: str, commands: tuple[str, ...] = ("pytest",), **fields: Any) -> PlannedStep:
    """Return a step of mode `test` that runs `commands` after the steps `after`."""
    tools = tuple(map(CATALOGUE.match, commands))
    spec = {"mode": Mode.TEST, "controller_task_spec": ControllerTaskSpec(type=StepType.TEST)}
    return a_step(step_id, *after, files=(), tools=tools, **fields).model_copy(update=spec)


def some_steps(count: int, *after: str, **fields: Any) -> list[PlannedStep]:
    """Return steps s-0, s-1, ... that all wait for the steps `after`."""
    return [a_step(f"s-{number}", *after, **fields) for number in range(count)]


def a_goal(
    approvals: Sequence[str] = (),
    tenant: str = "default",
    repo: str | None = None,
    kind: str = "task",
    files: Sequence[str] = (),
    mend: bool = True,
    base_sha: str | None = None,
    failing: Sequence[str] = (),
    sentence: str = "Make it right",
    context: Any = MappingProxyType({}),
    delivery: Any = None,
    overlap: str | None = None,
    steps: Any = None,
    holdout: str | None = None,
    **limits: Any,
) -> Goal:
    plenty = {"tokens": 10**8, "patch_cycles": 100_000, "failing_outcomes": 1000, "max_steps": 10_000, **NO_HALT}
    known = {"repo": repo, "base_sha": base_sha, "failing_tests": failing, **context}
    body = {"goal": sentence, "tenant": tenant, "context": known, "approvals": approvals}
    body |= {"kind": kind, "allowed_files": files}
    more = {"mend": mend, "delivery": delivery, "overlap": overlap, "steps": steps, "holdout": holdout}
    more["limits"] = {**plenty, **limits}
    return Goal.model_validate({**body, **more})


def a_plan_seed(plan: str = PLAN, version: int = 0, now: int = EPOCH_MS, seed: str = "seed") -> PlanSeed:
    return PlanSeed(plan, "goal-1", now, seed, PARTITION.outcomes, PARTITION.lease_prefix(plan), version)


def a_plan(
    *steps: PlannedStep,
    plan: str = PLAN,
    version: int = 0,
    now: int = EPOCH_MS,
    catalogue: Catalogue = CATALOGUE,
    born: Any = MappingProxyType({}),  # more of its PlanSeed
    draft: Any = MappingProxyType({}),  # more of its Draft
    **limits: Any,
) -> list[Changeset]:
    """Return the commits that create a plan of these steps with this catalogue."""
    made = Draft(steps, tools=keep_contracts(catalogue, steps), **draft)
    return list(goals.accept(replace(a_plan_seed(plan, version, now), **born), a_goal(**limits), made))


def a_report(step_id: str, attempt: int | None = None, lease: str | None = None, **said: Any) -> Report:
    """Return a report of success, with the fields `said` changed."""
    raw = codec.dumps({"step_id": step_id, "success": True, **said})
    digest = blake2b(raw, digest_size=9).hexdigest()
    return Report(Outcome.model_validate_json(raw), attempt, lease, raw, digest)


def a_failure(step_id: str, attempt: int | None = None, category: str = "TEST_REGRESSION", **said: Any) -> Report:
    return a_report(step_id, attempt, success=False, failure_evidence={"category": category}, **said)


def clocks(store: MemoryStore) -> dict[str, int]:
    """Return the timers of plans that run; an ended plan only has timers to publish its record and to expire."""
    soon = store.now + 500 * store.retention_s
    ends = {end.encode() for end in PLAN_ENDS}
    runs = {
        plan: store.hash(PARTITION.plan(plan).plan).get("state") not in ends for plan in store.hash(PARTITION.timers)
    }
    return {plan: due for plan, due in store.hash(PARTITION.timers).items() if due < soon and runs[plan]}


class Running:
    """A plan of these steps in a memory store; each method acts as the engine does, until no work is left."""

    policy: Policy = BUILT_IN
    asked_before: Asked

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """Hold the specs of the plan against each other, whatever makes it."""
        made = super().__new__(cls)
        made.asked_before = Asked()
        return made

    def __init__(
        self,
        *steps: PlannedStep,
        plan: Any = PLAN,
        store: Any = None,
        tenant: Any = "default",
        repo: Any = None,
        budgets: Any = (),
        policy: Any = BUILT_IN,
        requires_receipts: Any = False,
        requires_reports: Any = False,
        delivery_wait_s: Any = None,
        answer_wait_s: Any = None,
        failed_diffs: Any = (),
        remembers_diffs: Any = True,
        draft: Any = MappingProxyType({}),
        flaky_tests: Any = NOTHING,
        remembers_flaky_tests: Any = True,
        **limits: Any,
    ) -> None:
        self.plan_id: str = plan
        self.policy = policy
        self.clocks = NO_CLOCKS  # as the sweeps of the partition know them
        self.short_of_memory = False
        self.store: MemoryStore = store or MemoryStore(PARTITION)
        self.keys = PARTITION.plan(plan)
        now = self.store.now
        born = {"standing": self.store.standing(tenant, repo, now), "grants": self.store.grants(budgets)}
        born["paused_queues"] = self.store.paused_queues()
        switches = {"delivery_wait_s": delivery_wait_s, "answer_wait_s": answer_wait_s}
        off = {"unproven_successes": requires_receipts, "failed_diffs": not remembers_diffs}
        off |= {"flaky_tests": not remembers_flaky_tests, "exit_codes_alone": requires_reports}
        switches = {name: value for name, value in switches.items() if value is not None}
        born |= {"policy": policy, "switches": switches | {name: 0 for name, is_off in off.items() if is_off}}
        born["recalled"] = recalled = {FAILED_DIFFS: failed_diffs, MEMORY: flaky_tests._asdict()}
        if repo:
            about = Goal.model_validate({"goal": "Mend it", "tenant": tenant, "context": {"repo": repo}})
            records = self.store.items(PARTITION.memory(outcome_memory.where(about) or ""))
            recalled |= {outcome_memory.OUTCOMES: outcome_memory.read(records, about, now)}
            born["claims"] = self.store.claims(ClaimsAsk(tenant, repo, asked_for(claimed_by(steps, wide=True))))
        changes = a_plan(*steps, plan=plan, now=now, born=born, draft=draft, tenant=tenant, repo=repo, **limits)
        assert self.store.commit([Write(change) for change in changes]) == ["ok"] * len(changes)
        self.changes: list[Changeset] = changes
        self.asked_before.look(changes[-1])
        self.store.refill(changes[-1].short)
        if changes[-1].more or changes[-1].short:
            self.report()

    def report(self, *reports: Report) -> list[Verdict]:
        """Apply these reports; return the verdict of each, read from the events."""
        named = [report.outcome.step_id for report in reports]
        bare = any(report.needs_lease for report in reports)
        sent = [report._replace(entry=f"{self.store.now}-{number}") for number, report in enumerate(reports)]
        before = len(self.changes)
        if len(sent) == 1 and self._is_alone():
            plain.compare(self.store.held(self.plan_id), sent[0], sent[0].entry or "", self.store.now, self.policy)
        verdicts = self._decide(
            lambda view: outcomes.apply(view, sent), Ask(self.plan_id, list(dict.fromkeys(named)), leases=bare)
        )
        told: dict[str, str] = {}
        for data in (codec.loads(raw) for change in self.changes[before:] for _, raw in change.events):
            told |= {data["entry"]: data.get("verdict", "applied")} if "entry" in data else {}
        assert [told[one.entry or ""] for one in sent] == verdicts
        return verdicts

    def _is_alone(self) -> bool:
        """Return whether no standing command, paused queue, budget or lack of memory affects the plan's decisions.

        Only then may a decision be plain.
        """
        head = self.record.head
        stands = self.store.standing(head.tenant, head.repo, self.record.times["created"])
        budgets = self.store.hash(self.keys.plan).get("quota")
        return not (stands or self.store.paused_queues() or budgets or self.short_of_memory)

    def sweep(self) -> None:
        """Sweep the plan if its timer has run out."""
        if self.plan_id in self.store.due():
            self.look()

    def look(self, clocks: Clocks | None = None) -> None:
        """Look at the plan as a sweep does, or as after an order that is wider than it."""
        known = clocks or self.clocks
        self._decide(lambda view: upkeep.apply(view, known), Ask(self.plan_id, leases=True))

    def outage(self, ms: int) -> None:
        """Let time pass without a sweep."""
        self.store.wait(ms)
        self.clocks = Clocks(grace=self.store.now, down=self.clocks.down + ms)

    def obey(self, order: Command) -> None:
        """Give an order about the plan, or about one of its steps."""
        steps = [order.step_id] if order.step_id else []
        self._decide(lambda view: commands.apply(view, [order]), Ask(self.plan_id, steps, leases=True))

    def rest(self) -> None:
        """Let the time pass that steps wait before their next attempt."""
        if backoffs := self.record.backoffs:
            self.store.wait(max(0, max(backoffs.values()) - self.store.now))
            self.sweep()

    def _decide(self, decision: Any, ask: Ask) -> list[Verdict]:
        verdicts: list[Verdict] = []
        full: frozenset[str] = frozenset()
        while True:
            view = self.begin(ask)
            view.full, view.short_of_memory = full, self.short_of_memory
            try:
                change: Changeset = decision(view)
            except NeedsSteps as missing:
                steps = [*ask.steps, *self.named(missing)]
                ask = ask._replace(steps=steps, leases=ask.leases or LEASES in missing.step_ids)
                continue
            except NeedsClaims as missing:
                head = view.record.head
                wanted = ClaimsAsk(head.tenant, head.repo or "", sorted(missing.files), missing.deep)
                ask = ask._replace(claims=wanted.more(ask.claims))
                continue
            (verdict,) = self.store.commit([Write(change)])
            if isinstance(verdict, str) and verdict.startswith("full "):
                full |= {verdict.removeprefix("full " + PARTITION.steps(""))}
                continue
            assert verdict == "ok"
            self.store.refill(change.short)
            self.changes.append(change)
            self.asked_before.look(change)
            verdicts += change.verdicts
            wider = change.wider and ask.page < MAX_PAGE
            if not (change.more or change.short or wider):
                return verdicts
            page = ask.page * 8 if wider else READY_PAGE
            decision, ask = (lambda view: outcomes.apply(view, ())), Ask(self.plan_id, page=page)

    def named(self, missing: NeedsSteps) -> list[str]:
        """Return the steps that a decision needs, as the engine finds them."""
        every = self.store.hash(self.keys.status) if EVERY_STEP in missing.step_ids else ()
        return sorted((missing.step_ids - {EVERY_STEP, LEASES}).union(every))

    def begin(self, ask: Ask) -> Snapshot:
        (view,) = self.store.begin([ask])
        assert isinstance(view, Snapshot)
        view.policy = self.policy
        return view

    @property
    def record(self) -> PlanRecord:
        return self.begin(Ask(self.plan_id)).record

    @property
    def state(self) -> str:
        return self.record.state

    @property
    def halt(self) -> dict[str, Any]:
        found: dict[str, Any] = codec.loads(self.store.hash(self.keys.plan)["halt"])
        return found

    @property
    def texts(self) -> Sequence[str]:
        return read_texts(self.store.hash(self.keys.steps).get(TEXTS))

    @property
    def facts(self) -> dict[str, dict[str, Any]]:
        return facts_of(self.store.hash(self.keys.steps))

    @property
    def steps(self) -> dict[str, StepStatus]:
        return {step: StepStatus.decode(raw) for step, raw in self.store.hash(self.keys.status).items()}

    @property
    def states(self) -> dict[str, str]:
        return {step: status.state for step, status in self.steps.items()}

    @property
    def active(self) -> dict[str, Attempt]:
        return {step: Attempt.decode(raw) for step, raw in self.store.hash(self.keys.active).items()}

    @property
    def log(self) -> list[dict[str, Any]]:
        return [codec.loads(line) for line in self.store.items(self.keys.log)]

    @property
    def specs(self) -> list[dict[str, Any]]:
        """Return the specs in the default queue."""
        return self.waiting("default")

    def waiting(self, queue: str) -> list[dict[str, Any]]:
        """Return the specs in a queue."""
        entries = self.store.stream(PARTITION.steps(queue)).entries.values()
        specs = [codec.loads(fields[b"data"]) for fields in entries]
        undeclared = {name for spec in specs for name in spec["context"]} - StepContext.model_fields.keys() - {"memory"}
        assert not undeclared, f"StepContext in schemas/step.py lacks {undeclared}"
        return specs

    @property
    def events(self) -> list[str]:
        return [fields[b"type"].decode() for fields in self.store.stream(PARTITION.events).entries.values()]


def wait_sweeping(plan: Running, ms: int, every: int = 10_000, *, renewing: tuple[str, ...] = ()) -> None:
    """Let time pass while the timers are swept; controllers of `renewing` keep their leases."""
    for _ in range(0, ms, every):
        plan.store.wait(every)
        for step in renewing:
            plan.store.claim(PLAN, step)
        plan.sweep()
    plan.rest()


def fail_and_rest(plan: Running, step: str, category: str, **evidence: Any) -> None:
    said = {"category": category, **evidence}
    plan.report(a_report(step, plan.steps[step].attempt, success=False, failure_evidence=said))
    plan.rest()
