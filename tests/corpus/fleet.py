"""Fleets and people of the corpus: they look at a plan and choose its next input, by a seeded generator."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from schemas import codec
from schemas.step import DELIVERIES
from schemas.times import rfc3339
from tasks.policy.starts import SILENT_MS
from tests.corpus import answers
from tests.corpus.goals import PLAIN
from tests.corpus.play import Input, Player
from tests.support.plans import PARTITION
from worker.store.plans import MAX_QUEUE

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
TRACES = {
    "TEST_REGRESSION": "FAILED tests/test_auth.py::test_login - AssertionError: expected 201, got 500",
    "TEST_TIMEOUT": "Failed: Timeout >300.0s",
    "FLAKY_TEST": "tests/test_auth.py::test_login passed on the second run",
    "COMPILATION_ERROR": "  File \"src/auth.py\", line 3\n    def login(\nSyntaxError: '(' was never closed",
    "TYPE_ERROR": 'src/auth.py:4: error: Argument 1 to "f" has incompatible type "str"; expected "int"  [arg-type]',
    "LINT_ERROR": "src/auth.py:1:8: F401 [*] `os` imported but unused",
    "IMPORT_ERROR": "ModuleNotFoundError: No module named 'requests'",
    "UNKNOWN": "Something went wrong",
    "SANDBOX_VIOLATION": "links lead out of the tree: src/x",
    "HYGIENE_VIOLATION": "a secret was committed",
    "ALLOWLIST_VIOLATION": "changed but not allowed: src/other.py",
    "BUDGET_EXCEEDED": "the agent used up its tokens",
    "who knows": "npm ERR! code ERESOLVE could not resolve",
}
ORDINARY = tuple(TRACES)[:8]
SECURITY = tuple(TRACES)[8:12]


@dataclass(frozen=True)
class Crew:
    """How those around a plan behave, as probabilities of each turn."""

    success: float = 1.0
    pre_steps: float = 0.9  # of steps that were inserted before a retry
    categories: tuple[str, ...] = ORDINARY
    good: float = 1.0  # an answer of a step that reads
    passes: float = 0.9  # of reviews
    alike: bool = False  # the same failure again and again
    silent: float = 0.0  # whoever has the step says nothing any more
    claims: float = 0.5
    commands: float = 0.0
    around: float = 0.0
    odd: float = 0.0  # an outcome that is late, doubled, unknown, or out of order
    growing: float = 0.0  # files created, kilobytes added
    answers: float = 1.0  # of a person that is asked
    approves: float = 1.0
    hands_back: float = 0.0  # whoever has the step cannot begin
    idle: float = 0.0  # a success that changed no file


CREWS = {
    "honest": Crew(),
    "ordinary": Crew(success=0.7, good=0.9),
    "clumsy": Crew(success=0.35, good=0.6),
    "alike": Crew(success=0.2, alike=True),
    "hopeless": Crew(success=0.0, good=0.3),
    "violators": Crew(success=0.6, categories=(*ORDINARY, *SECURITY, "who knows")),
    "silent": Crew(success=0.9, silent=0.4),
    "dead": Crew(silent=1.0, claims=1.5),
    "growing": Crew(success=0.9, growing=0.6),
    "operated": Crew(success=0.8, commands=0.3, approves=0.7, good=0.9),
    "surrounded": Crew(success=0.8, around=0.3),
    "odd": Crew(success=0.7, odd=0.4),
    "unanswered": Crew(success=0.95, answers=0.0, approves=0.0, good=0.95, passes=0.5),
    "critical": Crew(success=0.9, passes=0.2),
    "linters": Crew(success=0.1, categories=("LINT_ERROR", "TYPE_ERROR", "IMPORT_ERROR", "COMPILATION_ERROR")),
    "importers": Crew(success=0.0, categories=("IMPORT_ERROR",)),
    "testers": Crew(success=0.1, categories=("TEST_REGRESSION", "TEST_TIMEOUT", "FLAKY_TEST"), claims=0.9),
    "refused": Crew(success=0.9, approves=0.3, answers=0.6, commands=0.1),
    "broken": Crew(success=0.9, claims=0.9, hands_back=0.5),
    "idle": Crew(success=0.9, idle=0.4),
}


class Fleet:
    """Chooses the inputs of one plan; the same `seed` chooses the same."""

    def __init__(self, player: Player, kind: str, crew: Crew, seed: str) -> None:
        self.player, self.kind, self.crew = player, kind, crew
        self.rng = Random(seed)
        self.number = 0
        self.last: list[Any] | None = None  # the last report, to be sent once more

    def choose(self) -> Input:
        """Choose what happens next to a plan that is not over."""
        self.number += 1
        rng, crew, player = self.rng, self.crew, self.player
        record = player.record
        if rng.random() < crew.commands:
            return self._command()
        if rng.random() < crew.around:
            return self._around()
        if record.question:
            return self._to_question()
        if record.waits and (not player.active or rng.random() < 0.5):
            return self._to_approval(sorted(record.waits))
        if player.active:
            return self._work()
        if record.paused or record.held:
            return self._clear()
        due = [*record.backoffs.values(), record.wake]
        return ["wait", max(1, min(each for each in due if each) - player.store.now) if any(due) else HOUR_MS]

    def _work(self) -> Input:
        rng, crew, active = self.rng, self.crew, sorted(self.player.active)
        unclaimed = [step for step in active if "claimed" not in self.player.store.lease(self.player.plan_id, step)]
        if unclaimed and rng.random() < crew.claims:
            step = rng.choice(unclaimed)
            return ["claim", step, f"ctl-{rng.randrange(6)}"] if crew.hands_back else ["claim", step]
        if rng.random() < crew.silent:
            return ["wait", rng.choice([SILENT_MS, 2 * SILENT_MS, HOUR_MS + 1])]
        if rng.random() < crew.odd:
            return ["report", [self._odd(active)]]
        count = rng.choice([1, 1, 1, len(active)])
        reports = [self._report(step) for step in rng.sample(active, count)]
        self.last = reports[-1]
        return ["report", reports]

    def _report(self, step: str) -> list[Any]:
        rng, attempt = self.rng, self.player.active[step]
        stored = self.player.store.stream(PARTITION.steps(attempt.queue)).entries[attempt.entry.encode()]
        spec = codec.loads(stored[b"data"])
        body: dict[str, Any] = {"diff_hash": f"{self.number:x}", "controller": "ctl-7"}
        body["metrics"] = {
            "tokens_used": rng.randrange(200, 3000),
            "patch_cycles": rng.randrange(2),
            "duration_ms": 8500,
        }
        if self.crew.hands_back and rng.random() < self.crew.hands_back:
            body |= {"success": False, "released": {"reason": rng.choice(["no such repository", "Error: 429"])}}
        elif rng.random() < (self.crew.pre_steps if spec.get("inserted_by") else self.crew.success):
            body |= self._success(spec)
        else:
            body |= self._failure(step, spec)
        return [step, attempt.attempt, attempt.lease, body]

    def _success(self, spec: dict[str, Any]) -> dict[str, Any]:
        rng = self.rng
        body: dict[str, Any] = {"success": True, "touched_files": spec["allowed_files"][:2]}
        if self.crew.idle and rng.random() < self.crew.idle:
            body["touched_files"] = []
        if spec["verify_tools"]:
            body["tests_passed"] = True
            body["verify"] = [{"tool": tool["tool"], "exit_code": 0} for tool in spec["verify_tools"]]
        if spec["queue"] == DELIVERIES:
            body |= self._delivered(spec)
        elif spec["mode"] == "read_only":
            body["output"] = answers.output(self.kind, spec, rng, self.crew.good, self.crew.passes)
            if rng.random() > self.crew.good:
                body["output"] = answers.BLOCKED
        if spec["mode"] == "patch" and rng.random() < self.crew.growing:
            body["created_files"] = spec["allowed_files"][: rng.randrange(3)]
            body["growth_kb"] = rng.choice([0, 10, 400, -8])
        return body

    def _delivered(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Land on a target that has moved or not, in conflict or not; or deliver."""
        if spec["controller_task_spec"]["type"] == "DELIVER":
            return {
                "output": {"branch": "planner/x", "pull_request": "https://forge.example/acme/shop/pull/7", "lines": 12}
            }
        target, moved = f"{self.rng.randrange(1, 4)}" * 40, self.rng.random()
        output: dict[str, Any] = {"target_sha": target, "result_sha": "f" * 40, "conflicts": [], "target": "main"}
        if moved < 0.4:
            return {"output": output}
        conflicts = [self.rng.choice([*PLAIN, "docs/auth.md"])] if moved < 0.7 else []
        sides = [{"path": path, "ours": "-old\n+ours", "theirs": "-old\n+theirs"} for path in conflicts]
        steps = {row["step_id"]: row for row in spec["input"]["accepted"]}
        commits = [{"step_id": each, "attempt": 1, "diff_hash": "d" * 64} for each in steps]
        output |= {"conflicts": conflicts, "sides": sides, "between": ["abc Rename add"], "commits": commits}
        return {"output": output, "verified_at": target}

    def _failure(self, step: str, spec: dict[str, Any]) -> dict[str, Any]:
        rng, categories = self.rng, self.crew.categories
        if spec["verify_tools"] and rng.random() < 0.1:
            return {"success": True, "tests_passed": False}
        name = categories[len(step) % len(categories)] if self.crew.alike else rng.choice(categories)
        trace = TRACES[name] if self.crew.alike else f"{TRACES[name]}\n{rng.choice(['here', 'there', 'elsewhere'])}"
        evidence = {
            "category": name,
            "stack_trace_head": trace,
            "top_failing_tests": rng.choice([[], ["tests/test_auth.py::test_login"], ["src/x.py::test; rm -rf /"]]),
            "affected_files": rng.choice([[], *[spec["allowed_files"][:1]] * 3, ["/etc/passwd", "src/auth.py"]]),
            "suggestion": rng.choice([None, "Check the login route handler"]),
        }
        return {"success": False, "touched_files": spec["allowed_files"][:1], "failure_evidence": evidence}

    def _odd(self, active: list[str]) -> list[Any]:
        report = self._report(self.rng.choice(active))
        choice = self.rng.randrange(6)
        if choice == 0 and self.last:
            return self.last
        if choice == 1:
            return ["no-such-step", 1, None, {"success": True}]
        if choice == 2:
            return [report[0], report[1] + 7, None, report[3]]
        if choice == 3:
            return [report[0], report[1], "wrong", report[3]]
        if choice == 4:
            return [report[0], None, None, report[3]]
        return [report[0], report[1], report[2], {**report[3], "touched_files": ["src/elsewhere.py"]}]

    def _command(self) -> Input:
        rng, steps = self.rng, sorted(self.player.states)
        files = ["src/auth.py", "tests/test_auth.py", "src/a.py"]
        choices: list[tuple[str, Any, bool]] = [
            ("pause", None, False),
            ("resume", None, False),
            ("top_up", {"tokens": rng.randrange(1, 5000)}, False),
            ("tighten", {"allowed_files": rng.sample(files, 2)}, False),
            ("tighten", {"risk_level": rng.choice(["MED", "HIGH"])}, True),
            ("skip", None, True),
            ("approve", None, True),
            ("reject", None, True),
            ("halt", None, False),
            ("cancel", None, False),
        ]
        weights = [4, 4, 3, 2, 2, 3, 3, 1, 1, 1]
        name, value, is_of_step = rng.choices(choices, weights)[0]
        until = rfc3339(self.player.store.now + 30_000) if name == "pause" and rng.random() < 0.5 else None
        return self._order(name, value, rng.choice(steps) if is_of_step and steps else None, until)

    def _order(self, name: str, value: Any = None, step: str | None = None, until: str | None = None) -> Input:
        body: dict[str, Any] = {"command_id": f"o-{self.number}", "command": name, "scope": "step" if step else "plan"}
        body |= {"plan_id": self.player.plan_id, "actor": "ada", "reason": "because"}
        more = {"step_id": step, "value": value, "until": until}
        return ["command", body | {key: each for key, each in more.items() if each is not None}]

    def _around(self) -> Input:
        rng = self.rng
        wide = rng.choice(["all", "tenant", "repository"])
        choices: list[Input] = [
            ["stand", ["pause", wide]],
            ["lift", wide],
            ["memory", rng.random() < 0.5],
            ["queue", rng.choice([0, 1, MAX_QUEUE])],
            ["outage", rng.choice([20_000, SILENT_MS, 20 * SILENT_MS])],
            ["budget", rng.randrange(1, 5000)],
            ["stand", [rng.choice(["halt", "cancel"]), wide]],
        ]
        return rng.choices(choices, [4, 3, 3, 3, 3, 3, 0.5])[0]

    def _clear(self) -> Input:
        if self.player.record.paused:
            return self._order("resume")
        rng = self.rng
        choices: list[Input] = [
            *(["lift", scope] for scope in ("all", "tenant", "repository")),
            ["memory", False],
            ["queue", MAX_QUEUE],
            ["budget", 10**6],
            ["wait", DAY_MS],
        ]
        return rng.choice(choices)

    def _to_question(self) -> Input:
        if self.rng.random() < self.crew.answers:
            return self._order("answer", answers.to_question(self.kind, self.rng))
        return ["wait", self.rng.choice([HOUR_MS, 7 * DAY_MS + 1])]

    def _to_approval(self, steps: list[str]) -> Input:
        step = self.rng.choice(steps)
        if self.rng.random() < self.crew.approves:
            return self._order("approve", step=step)
        choice = self.rng.choice(
            [["wait", 7 * DAY_MS + 1], self._order("reject", step=step), self._order("skip", step=step)]
        )
        return list(choice)
