"""A fleet and a person around one plan: who takes which step, what lands, and the time that all of it takes.

The plan is decided by the real handlers through the memory store. Time moves to what happens next: an attempt ends, a
timer of the plan runs out, a person answers. Hosts that work renew their leases before anything else happens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from schemas import codec
from schemas.base import StepState, Verdict
from schemas.goal import Goal
from tasks.features.failed_changes import FAILED_DIFFS
from tasks.policy.plan_seed import PlanSeed
from tests.corpus.play import Player
from tests.simulation.agent import Spec
from tests.simulation.goals import Mission
from tests.simulation.host import CHEATED, LEFT, OF_PROVIDER, Attempt, Bench, Host, Ill, attempt
from tests.simulation.layouts import surround
from tests.simulation.permission import permitted
from tests.simulation.repository import Repository
from tests.simulation.roles import answers_of
from tests.simulation.supplied import pairs
from tests.support.plans import PARTITION
from worker.controller.pauses import Pauses
from worker.controller.readiness import CannotWork, NotVerifiable, ProviderTrouble

HOSTS = 10
IDLE = 0.5  # how often a host that can work has nothing else to do; one that cannot always is
PERSON_MS = 3_600_000  # until somebody approves or answers
TURNS = 3000  # that no plan needs


@dataclass(frozen=True, slots=True)
class Conditions:
    """How good agents and hosts are, and what the repositories were like before; shares from 0 to 1."""

    mistakes: float = 0.0  # of attempts in which an agent works
    red_before: float = 0.0  # of repositories
    flaky: float = 0.0  # of repositories, which have one flaky test each
    broken_hosts: float = 0.0
    liars: float = 0.0  # of hosts
    cheats: float = 0.0  # of attempts that are to make failing tests pass, or to close findings


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one goal. `undone` and `red` are what is wrong with its branch at the end."""

    number: int
    kind: str
    template: str
    state: str
    cause: str = ""  # of a plan that did not complete: the rule that halted it
    step: str = ""  # the step that failed last, and with what
    why: str = ""  # it failed, or work is missing although the plan completed
    undone: tuple[str, ...] = ()
    red: tuple[str, ...] = ()
    tokens: int = 0
    attempts: int = 0
    seconds: int = 0  # from the goal to the plan's end
    cheats: int = 0  # attempts that cheated
    faked: tuple[str, ...] = ()  # items that a cheat left undone, which no tool sees
    told: bool = False  # of what a change does to tests and checks
    unclean: tuple[str, ...] = ()  # mistakes that a tool of the project would see, and no verification did

    @property
    def completed(self) -> bool:
        """Whether the planner says that it is done."""
        return self.state == "COMPLETED"

    @property
    def claimed(self) -> bool:
        """Whether the planner says so without a word about what a change does to tests and checks."""
        return self.completed and not self.told

    @property
    def true(self) -> bool:
        """Whether that is so."""
        return self.completed and not (self.undone or self.red or self.unclean or self.faked)


class Forgetful(Player):
    """A plan without anything that plans remember: what that is worth is measured apart (`habits`)."""

    def begin_as(self, _: Goal, plan_seed: PlanSeed) -> PlanSeed:
        return replace(plan_seed, switches={FAILED_DIFFS: 0})


@dataclass(slots=True)
class Running:
    """An attempt in flight."""

    number: int
    lease: str
    ends: int
    done: Attempt
    allowed: tuple[str, ...]
    host: str


@dataclass
class Course:
    """The course of one plan until it ends, or until nothing can happen to it any more."""

    mission: Mission
    conditions: Conditions
    number: int
    seed: int
    attempts: int = 0
    last: tuple[str, str] = "", ""  # the step that failed last and with what, and why
    offered: set[str] = field(default_factory=set)  # files that a step could touch
    landed: dict[str, str] = field(default_factory=dict)  # files that a step which is done could touch, and its note
    running: dict[str, Running] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)  # what a person was asked, and when the answer comes
    commands: int = 0
    cheats: int = 0
    faked: set[str] = field(default_factory=set)
    was_told: bool = False  # of what a cheat faked, as the row that it was drawn from was
    pauses: dict[str, Pauses] = field(default_factory=dict)  # of each host, as the reference controller counts them
    pausing: dict[str, int] = field(default_factory=dict)  # hosts that begin nothing, until when

    def __post_init__(self) -> None:
        self.rng = self._random("agents")
        self.repository = self.surroundings()
        self.hosts = self.make_hosts()
        self.bench = self.make_bench()
        self.tree = self.repository.base
        self.player = self.make_player()

    def surroundings(self) -> Repository:
        """Return the repository with what was wrong before the goal."""
        around = self._random("surroundings")
        red, flaky = around.random() < self.conditions.red_before, around.random() < self.conditions.flaky
        return surround(self.mission.repository, around, red=red, flaky=flaky)

    def make_hosts(self) -> list[Host]:
        """Return the hosts that may take steps."""
        return _hosts(self.conditions, self._random("hosts"))

    def make_bench(self) -> Bench:
        """Return what the hosts work with."""
        return Bench(self.repository, answers_of(self.mission), self.conditions.mistakes, cheats=self.conditions.cheats)

    def make_player(self) -> Player:
        """Return the plan that is made of the goal."""
        return Forgetful(self.mission.scene)

    def told(self, spec: Spec) -> Spec:
        """Return the spec of an attempt as its host reads it."""
        return spec

    def chance(self, _step: str, _attempt: int) -> Random:
        """Return what an attempt draws from."""
        return self.rng

    def _random(self, about: str) -> Random:
        return Random(f"{self.seed}:{self.number}:{about}")

    def run(self) -> Result:
        """Let the plan run; returns what came of it."""
        turns = 0
        while not self.player.is_over and turns < TURNS:
            turns += 1
            self._begin()
            if not self._go_on():
                break
        return self._result()

    def _begin(self) -> None:
        """Have a host take each attempt that nobody has; forget those that are not wanted any more."""
        active = self.player.active
        for step in [
            step for step, each in self.running.items() if step not in active or active[step].lease != each.lease
        ]:
            del self.running[step]
        for step in sorted(active.keys() - self.running.keys()):
            live = active[step]
            entry = self.player.store.stream(PARTITION.steps(live.queue)).entries[live.entry.encode()]
            spec = self.told(codec.loads(entry[b"data"]))
            rng = self.chance(step, live.attempt)
            host = self._host(rng)
            done = attempt(host, spec, self.tree, self.bench, rng)
            self.attempts += 1
            self.cheats += done.note == CHEATED
            allowed = permitted(spec, self.repository, self.tree)
            self.offered.update(allowed)
            self.player.store.claim(self.player.plan_id, step, host.name)
            self.running[step] = Running(
                live.attempt, live.lease, self.now + 1000 * done.seconds, done, allowed, host.name
            )

    def _host(self, rng: Random) -> Host:
        """Whoever has nothing to do and does not pause; of several any."""
        awake = [host for host in self.hosts if self.pausing.get(host.name, 0) <= self.now]
        idle = [host for host in awake if host.ill or rng.random() < IDLE]
        return rng.choice(idle or awake or self.hosts)

    @property
    def now(self) -> int:
        """The time of the store."""
        return self.player.store.now

    def _go_on(self) -> bool:
        """Move the clock to what happens next, and let it happen; False where nothing will."""
        record = self.player.record
        self._ask("question" if record.question else "", *record.waits)
        ends = min(((each.ends, step) for step, each in self.running.items()), default=None)
        asked = min(((at, about) for about, at in self.asked.items()), default=None)
        wake = self.player.store.hash(PARTITION.timers).get(self.player.plan_id)
        times = [found for found in (ends and ends[0], asked and asked[0], wake) if found]
        if not times:
            return False
        self._wait(max(0, min(times) - self.now))
        if self.player.is_over:
            return True
        if ends and ends[0] <= self.now:
            self._finish(ends[1])
        elif asked and asked[0] <= self.now:
            self._answer(asked[1])
        return True

    def _wait(self, ms: int) -> None:
        self.player.store.wait(ms)
        for step, each in self.running.items():
            self.player.store.claim(self.player.plan_id, step, each.host)
        self.player.sweep()

    def _finish(self, step: str) -> None:
        """Report an attempt; what it changed is on the plan's branch if the report counts as a success."""
        each = self.running.pop(step)
        self._pause(each.host, each.done.body)
        (verdict,) = self.player.play(["report", [[step, each.number, each.lease, each.done.body]]])
        if verdict != Verdict.APPLIED:
            return
        if self.player.states.get(step) == StepState.DONE:
            self.tree = self.tree.changed(each.done.change)
            self.landed |= dict.fromkeys(each.allowed, each.done.note)
            self.faked |= each.done.faked
            self.was_told = self.was_told or each.done.told
        else:
            if each.done.tried:
                self.bench.failed[step] = each.done.tried
            why = next((name for name in ("released", "needs") if name in each.done.body), "refused")
            evidence = each.done.body.get("failure_evidence") or {"category": why}
            self.last = f"{step}: {evidence['category']}", self._blame(each.done.note)

    def _pause(self, host: str, body: dict[str, Any]) -> None:
        """Have a host pause that could not work, as the reference controller does."""
        pauses = self.pauses.setdefault(host, Pauses(1, lambda: self.now / 1000))
        trouble: CannotWork | None = NotVerifiable() if body.get("cannot_verify") else None
        if released := body.get("released"):
            trouble = ProviderTrouble() if released.get("kind") == OF_PROVIDER else CannotWork()
        if pause := pauses.count("", trouble):
            self.pausing[host] = self.now + round(1000 * pause.seconds)

    def _blame(self, note: str) -> str:
        """Say more of a failure for which the attempt itself is not to blame."""
        if note != LEFT:
            return note
        wrong = sorted(filter(None, self.landed.values()))
        return f"of an earlier step, {wrong[0]}" if wrong else "it takes files that the step may not touch"

    def _ask(self, *open_now: str) -> None:
        wanted = [about for about in open_now if about]
        self.asked = {about: self.asked.get(about, self.now + PERSON_MS) for about in wanted}

    def _answer(self, about: str) -> None:
        self.commands += 1
        body: dict[str, Any] = {"command_id": f"c-{self.commands}", "plan_id": self.player.plan_id, "actor": "ada"}
        if about == "question":
            order = {"command": "answer", "scope": "plan", "value": _reply(self.mission)}
        else:
            order = {"command": "approve", "scope": "step", "step_id": about}
        del self.asked[about]
        self.player.play(["command", {**body, "reason": "looked at it", **order}])

    def _result(self) -> Result:
        mission, player = self.mission, self.player
        about: dict[str, Any] = {
            "number": self.number,
            "kind": mission.kind,
            "template": mission.template,
            "attempts": self.attempts,
            "cheats": self.cheats,
        }
        if player.nothing is not None:
            return Result(state="NOTHING_TO_DO", cause=f"nothing to do: {player.nothing}", **about)
        record = player.record
        halted = player.state in ("HALTED", "REJECTED")
        cause = "" if record.state == "COMPLETED" else _cause(player.halt) if halted else "stands still"
        return Result(
            state=record.state,
            cause=cause,
            step=self.last[0] if cause else "",
            why=self.last[1] if cause else self._missing(),
            undone=tuple(item.work.value for item in self.repository.undone(self.tree)),
            red=tuple(sorted(self.repository.outlawed(self.tree))),
            tokens=record.spent["tokens"],
            faked=tuple(sorted(self.faked)),
            told=self.was_told or bool(record.integrity.told),
            **about,
        )

    def _missing(self) -> str:
        """Say why work is missing at the end of a plan that completed."""
        undone = self.repository.undone(self.tree)
        if not undone:
            return "broken where no verification looked" if self.repository.outlawed(self.tree) else ""
        path = undone[0].file
        if path not in self.offered:
            return "no step may touch the file"
        return self.landed.get(path, "its files were narrowed") or "the step had nothing of it to do"


def _cause(halt: dict[str, Any]) -> str:
    return f"rejected: {halt['reason']}" if halt["rule"] == "rejected" else str(halt["rule"])


def _reply(mission: Mission) -> Any:
    """Answer a gate that does not pass, or a campaign that cannot be planned as it stands."""
    if mission.kind == "reviewed_plan":
        return "continue"
    sources = [source for source, _ in pairs(mission.repository)]
    return {"candidates": sources, "test_pattern": "tests/test_*.py", "verify": "pytest -q", "confirm": True}


def _hosts(conditions: Conditions, rng: Random) -> list[Host]:
    hosts = []
    for number in range(HOSTS):
        ill = rng.choice(list(Ill))
        broken, lies = rng.random() < conditions.broken_hosts, rng.random() < conditions.liars
        hosts.append(Host(f"host-{number}", ill if broken else None, lies))
    return hosts


def run_plans(
    missions: list[Mission], conditions: Conditions, seed: int, told: Callable[[int], None] = lambda _: None
) -> list[Result]:
    """Play all missions under the same conditions."""
    results = []
    for number, mission in enumerate(missions):
        results.append(Course(mission, conditions, number, seed).run())
        told(number + 1)
    return results
