"""Recomputes a plan from its log with code other than the planner's, and checks the data left after its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from redis import Redis

from schemas import codec
from schemas.stored import Counters, StepStatus, read_part
from tests.support.stored_steps import facts_in
from worker.store import keys
from worker.store.keys import CONTROLLERS, GROUP, Partition

HOME = Partition(0)
ENDED = frozenset({"COMPLETED", "HALTED", "REJECTED"})
OVER = frozenset({"DONE", "FAILED", "SKIPPED", "HALTED"})
USED = ("tokens", "patch_cycles")

Line = dict[str, Any]


class Recount:
    """The state of a plan as its log gives it, and as the server stores it."""

    def __init__(self, redis: Redis, plan_id: str, home: Partition = HOME) -> None:
        k = home.plan(plan_id)
        pipeline = redis.pipeline(transaction=True)
        for key in (k.plan, k.steps, k.status, k.active):
            pipeline.hgetall(key)
        pipeline.zrange(k.ready, 0, -1)
        pipeline.lrange(k.todo, 0, -1)
        pipeline.lrange(k.log, 0, -1)
        plan, steps, status, active, self.ready, self.todo, log = pipeline.execute()
        self.plan_id = plan_id
        self.lines: list[Line] = [codec.loads(line) for line in log]
        self.version = int(plan.get(b"version", 0))
        self.state = plan.get(b"state", b"").decode()
        self.head: dict[str, Any] = codec.loads(plan.get(b"head", b"{}"))
        self.live: dict[str, Any] = codec.loads(plan.get(b"live", b"{}"))
        self.halt: dict[str, Any] = codec.loads(plan.get(b"halt", b"null")) or {}
        self.steps = facts_in(steps)
        self.status = {name.decode(): StepStatus.decode(raw).columns for name, raw in status.items()}
        self.active = {name.decode(): codec.loads(raw.partition(b" ")[2]) for name, raw in active.items()}

    def ends(self) -> Iterator[tuple[str, int, dict[str, Any] | None, bool]]:
        """Yield each attempt that ended by itself: step, number, its outcome or None, and whether it was claimed."""
        for line in self.lines:
            for what, *said in line["in"]:
                if what == "outcome":
                    attempt, _, outcome = said
                    yield outcome["step_id"], attempt, outcome, True
                elif what == "expired":
                    step, attempt, claimed, _ = said
                    yield step, attempt, None, claimed

    def faults(self) -> list[str]:
        """Return every difference between the stored plan and the state that its log gives."""
        return [*self._in_the_log(), *self._in_the_states(), *self._in_the_budgets(), *self._at_the_end()]

    def _in_the_log(self) -> Iterator[str]:
        versions = [line["version"] for line in self.lines]
        if versions != sorted(set(versions)) or versions[-1:] > [self.version]:
            yield f"versions {versions} do not lead to {self.version}"
        times = [line["now"] for line in self.lines]
        if times != sorted(times):
            yield "time runs backwards in the log"
        twice = {end: n for end, n in Counter((step, attempt) for step, attempt, *_ in self.ends()).items() if n > 1}
        if twice:
            yield f"attempts that ended more than once: {twice}"

    def _in_the_states(self) -> Iterator[str]:
        now = {name: "BLOCKED" if self._first_waits_for(name) else "PENDING" for name in self.steps} | {"": "CREATED"}
        for line in self.lines:
            for name, before, after in line["moves"]:
                if now.get(name) != before:
                    yield f"version {line['version']}: {name or 'plan'} was {now.get(name)}, not {before}"
                now[name] = after
        stored = {name: record[1] for name, record in self.status.items()} | {"": self.state}
        if stored != now:
            differ = {name: (now.get(name), stored.get(name)) for name in now.keys() | stored.keys()}
            yield f"states (log, stored): { {n: two for n, two in differ.items() if two[0] != two[1]} }"
        counted = Counter(state for name, state in now.items() if name)
        if counted != Counter({state: n for state, n in self.live["counts"].items() if n}):
            yield f"counts: {dict(counted)} by the log, stored {self.live['counts']}"
        tried = Counter(step for step, *_ in self.ends())
        for name, record in self.status.items():
            started = tried[name] + (name in self.active) + self._cut_off(name)
            if record[3] != started:
                yield f"{name} had {record[3]} attempts, and {started} by the log"

    def _first_waits_for(self, name: str) -> list[str]:
        """Return the first dependencies of a step, without the preparations that its revisions added."""
        return [each for each in self.steps[name]["depends_on"] if self.steps[each]["inserted_by"] != name]

    def _cut_off(self, name: str) -> int:
        """Return the number of attempts of this step that a halt of the plan ended, 0 or 1."""
        last = self.lines[-1] if self.lines else {"moves": [], "in": []}
        halted = any(move == [name, "FAILED", "HALTED"] for move in last["moves"])
        return int(halted and self.halted_by() != name)

    def halted_by(self) -> str | None:
        """Return the step whose end halted the plan: the first ended step that the last commit moves to HALTED."""
        last = self.lines[-1]
        ended = {said[2]["step_id"] for what, *said in last["in"] if what == "outcome"}
        ended |= {said[0] for what, *said in last["in"] if what == "expired"}
        return next((name for name, _, after in last["moves"] if after == "HALTED" and name in ended), None)

    def _in_the_budgets(self) -> Iterator[str]:
        reserved = {name: sum(record[4 + place] for record in self.active.values()) for place, name in enumerate(USED)}
        for name in USED:
            if self.live["reserved"][name] != reserved[name]:
                yield f"reserved {name}: {self.live['reserved'][name]}, and {reserved[name]} are in flight"
        failing = sum(1 for line in self.lines for _ in _failing(line))
        if self.live["spent"]["failing_outcomes"] != failing:
            yield f"failing outcomes: {self.live['spent']['failing_outcomes']}, and {failing} by the log"
        told = sum((outcome.get("metrics") or {}).get("tokens_used") or 0 for *_, outcome, _ in self.ends() if outcome)
        limit = self.head["limits"]["tokens"]  # since policy version 2 no plan costs more
        if self.live["spent"]["tokens"] < min(told, told if limit is None else limit):
            yield f"tokens: {self.live['spent']['tokens']} spent, and {told} were reported"
        deaths = sum(1 for *_, outcome, claimed in self.ends() if outcome is None and claimed)
        counted = read_part(self.live, Counters).lease_deaths
        if counted != deaths:
            yield f"lease deaths: {counted}, and {deaths} by the log"

    def _at_the_end(self) -> Iterator[str]:
        if self.state not in ENDED:
            return
        if self.active or self.todo:
            yield f"ended with {self.active} in flight and {self.todo} left over"
        if self.state == "COMPLETED" and {record[1] for record in self.status.values()} - {"DONE", "SKIPPED"}:
            yield "completed, and not every step is done"
        if self.state == "HALTED" and not {"rule", "reason", "evidence"} <= self.halt.keys():
            yield f"halted without an explanation: {self.halt}"

    def history(self) -> str:
        """Show the plan's log, a line a commit."""
        head = f"{self.plan_id} {self.state} at version {self.version}; halt {self.halt}"
        return "\n".join([head, *(codec.dumps(line).decode() for line in self.lines)])


def _failing(line: Line) -> Iterator[str]:
    """Yield the steps whose outcome failed in this commit: every outcome leads to a move, DONE or another."""
    results: dict[str, list[str]] = {}
    for name, before, after in line["moves"]:
        if before == "ACTIVE":
            results.setdefault(name, []).append(after)
    handed_back = {(said[0], said[1]) for what, *said in line["in"] if what == "handed back"}
    for what, *said in line["in"]:
        if what == "outcome":
            step = said[2]["step_id"]
            if results.get(step, ["?"]).pop(0) != "DONE" and (step, said[0]) not in handed_back:
                yield step


def plans(redis: Redis) -> list[str]:
    """List the ids of all plans."""
    found: Any = redis.zrange(HOME.plans, 0, -1)
    return [plan_id.decode() for plan_id in found]


def left_over(redis: Redis, queues: tuple[str, ...] = ("default",)) -> list[str]:
    """Return the waiting entries of any stream, and the timers of ended plans other than their expiry."""
    streams = [(name, GROUP) for name in (keys.GOALS, HOME.outcomes, HOME.commands, keys.COMMANDS)]
    streams += [(HOME.steps(queue), CONTROLLERS) for queue in queues]
    found = []
    for stream, group in streams:
        groups: Any = redis.xinfo_groups(stream) if redis.exists(stream) else []
        pending = sum(each["pending"] for each in groups if each["name"] == group.encode())
        if (length := redis.xlen(stream)) or pending:
            found.append(f"{stream} holds {length}, {pending} of them read")
    seconds: Any = redis.time()
    soon: Any = redis.zrangebyscore(HOME.timers, "-inf", 1000 * (seconds[0] + 86_400))
    return [*found, *(f"timer of {plan_id.decode()}" for plan_id in soon)]
