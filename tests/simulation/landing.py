"""Plans that land on one repository with hot files, beside each other and people: what lands, and that nothing is lost.

The planner's decisions and the reference controller's landing and delivery are the real ones, with real git. Agents and
people are played: each changes lines that are marked with who made them, so that each delivered branch can be held
against the target that it lies on, line by line.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from schemas.outcome import VerifyReceipt
from tests.support.controlling import Repo
from tests.support.plans import PYTEST, Running, a_report, a_step
from worker.controller import wire
from worker.controller.agent_run import NO_AGENT_NEEDED
from worker.controller.changes import diff_hash
from worker.controller.delivery import Delivery
from worker.controller.landing import Landing
from worker.controller.lease import LeaseClient
from worker.controller.programs import VerificationResult
from worker.controller.remote import Remote
from worker.controller.repositories_file import RepositoriesFile
from worker.controller.result import Result, outcome
from worker.controller.shared import SharedRepository, shared_ref
from worker.controller.wire import Spec
from worker.host.git import Git

FILES, LINES = 20, 24
IN_FLIGHT = 12  # plans at a time
TOKENS = 20_000  # of an attempt of an agent
OPEN = 6  # delivered branches that wait for a reviewer
_DEFINED, _CALLED = re.compile(r"^def (\w+)", re.MULTILINE), re.compile(r"call (\w+)")


class _Held:
    def confirm(self) -> None:
        """Hold the lease for ever."""


@dataclass(slots=True)
class Work:
    """A plan at work: what its agent did, and to which lines."""

    plan: Running
    name: str
    base: str
    removed: set[str] = field(default_factory=set)


@dataclass(slots=True)
class World:
    """A repository, those who work on it, and what came of it."""

    folder: Path
    seed: int = 1
    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    remote: Repo = field(init=False)
    clone: SharedRepository = field(init=False)
    dice: random.Random = field(init=False)
    delivered: list[str] = field(default_factory=list)  # branches that nobody has merged yet

    def __post_init__(self) -> None:
        """Make the repository, its remote and the controller's clone."""
        self.dice = random.Random(self.seed)
        seed = Repo(self.folder / "seed")
        for number in range(FILES):
            lines = [f"def f{number}(): pass", *(f"line {number}.{line}" for line in range(LINES))]
            (seed.path / f"hot{number}.py").write_text("\n".join(lines) + "\n")
        seed.git("add", ".")
        seed.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Hot files")
        seed.git("clone", "--quiet", "--bare", ".", str(self.folder / "remote.git"))
        self.remote = Repo.at(self.folder / "remote.git")
        table = (
            f'[repositories."acme/hot"]\nurl = "{self.remote.path}"\n[repositories."acme/hot".delivery]\npush = true\n'
        )
        (self.folder / "repos.toml").write_text(table)
        self.clone = SharedRepository(self.folder / "clones/hot.git", Remote(str(self.remote.path)))

    @property
    def settings(self) -> Any:
        """Return what the operator's file permits."""
        return RepositoriesFile.read(self.folder / "repos.toml").repositories["acme/hot"]

    def play(self, plans: int) -> Counter[str]:
        """Have so many plans run to their ends, with people beside them; returns what was counted."""
        waiting, live = list(range(plans)), list[Work]()
        while waiting or live:
            while waiting and len(live) < IN_FLIGHT:
                live.append(self._begin(waiting.pop(0)))
            if self.dice.random() < 0.5:
                self._have_a_person_commit()
            work = self.dice.choice(live)
            self._go_on(work)
            if work.plan.state in ("COMPLETED", "HALTED"):
                live.remove(work)
                self._end(work)
        return self.counts

    def _begin(self, number: int) -> Work:
        name = f"plan_3c-{number:032x}"
        base = self.remote.git("rev-parse", "main")
        context = {"repo": "acme/hot", "base_sha": base}
        chosen = [f"hot{at}.py" for at in sorted(self.dice.sample(range(FILES), 2))]
        step = a_step("fix", tools=(PYTEST,)).model_copy(update={"allowed_files": tuple(chosen)})
        plan = Running(step, plan=name, files=chosen, context=context, delivery={"push": True})
        self.counts["plans"] += 1
        return Work(plan, name, base)

    def _go_on(self, work: Work) -> None:
        specs = [*work.plan.specs, *work.plan.waiting("deliver")]
        spec = next(each for each in reversed(specs) if each["step_id"] in work.plan.active)
        if spec["controller_task_spec"]["type"] == "PATCH":
            self._patch(work, spec)
        else:
            self._land_or_deliver(work, Spec.model_validate(spec))

    def _patch(self, work: Work, spec: Mapping[str, Any]) -> None:
        """Change a line of each file, or change it again where others came before."""
        self.counts["agent attempts"] += 1
        self.counts["tokens"] += TOKENS
        is_first = spec["step_id"] == "fix"
        tip = work.base if is_first else self.remote.git("rev-parse", shared_ref(work.name))
        self.counts["brought up to date"] += not is_first
        message = f"Do it\n\nPlan: {work.name}\nStep: {spec['step_id']}\nAttempt: {spec['attempt']}"
        self.remote.git("update-ref", "refs/heads/at-work", tip)
        functions, _ = self._names(tip)
        for path in spec["allowed_files"]:
            lines = self._lines(tip, path)
            new = f"line by {work.name} call {self.dice.choice(functions)} {path}"
            own = next((at for at, line in enumerate(lines) if work.name in line), None)
            if own is None and not is_first:  # both sides are kept
                lines.insert(self.dice.randrange(1, len(lines)), new)
            else:
                at = self.dice.randrange(1, len(lines)) if own is None else own
                work.removed.add(lines[at])
                lines[at] = new
            self.remote.commit_on("at-work", path, "\n".join(lines) + "\n", message)
        self._squash(tip, message, work, spec)

    def _squash(self, tip: str, message: str, work: Work, spec: Mapping[str, Any]) -> None:
        """Have a step be one commit, and report it."""
        words = ("-c", "user.name=t", "-c", "user.email=t@t", "commit-tree", "at-work^{tree}", "-p", tip, "-m", message)
        commit = self.remote.git(*words)
        if self.remote.git("rev-parse", f"{tip}^{{tree}}") == self.remote.git("rev-parse", f"{commit}^{{tree}}"):
            commit = tip
        else:
            self.remote.git("update-ref", shared_ref(work.name), commit)
        touched = [] if commit == tip else self.remote.git("diff", "--name-only", tip, commit).splitlines()
        said = {"diff_hash": diff_hash(Git(self.remote.path), tip, commit), "touched_files": touched}
        red = self._red(commit)
        verify = [{"tool": "pytest", "exit_code": int(bool(red))}]
        work.plan.report(
            a_report(spec["step_id"], spec["attempt"], spec["lease"], **said, verify=verify, tests_passed=not red)
        )

    def _land_or_deliver(self, work: Work, spec: Spec) -> None:
        lease = cast("LeaseClient", _Held())
        if spec.lands:
            self.counts["landings"] += 1
            moved = self.remote.git("rev-parse", "main") != spec.context.base_sha
            self.counts["landings on a target that had moved"] += moved
            result = Landing(spec, self.clone, self.settings, lease, lambda: self._verify(work)).run()
            if result.landed and result.landed["conflicts"]:
                self.counts["conflicts"] += 1
            elif result.failure and result.landed:
                self.counts["red on top, without a conflict"] += 1
        else:
            result = Delivery(spec, self.clone, self.settings, lease).run()
            self.counts["deliveries"] += result.failure is None
        said = outcome(spec, result, 1, "ctl").model_dump(mode="json", exclude_none=True)
        said = {name: value for name, value in said.items() if name not in ("step_id", "attempt", "lease")}
        work.plan.report(a_report(spec.step_id, spec.attempt, spec.lease, **said))
        work.plan.rest()

    def _verify(self, work: Work) -> Result:
        """Verify what lies on top of the target, as the controller's clone has it."""
        self.counts["verifications again"] += 1
        red = self._red(self.remote.git("rev-parse", shared_ref(work.name)))
        receipts = (VerifyReceipt(tool="pytest", exit_code=int(bool(red))),)
        failure = wire.tool_failure("pytest", f"NameError: {', '.join(red)}", timed_out=False) if red else None
        return Result(NO_AGENT_NEEDED, verification=VerificationResult(receipts, failure), failure=failure)

    def _names(self, commit: str) -> tuple[list[str], set[str]]:
        """Return the functions of a commit, and those that are called."""
        text = self.remote.git("grep", "-h", "-E", "^def |call ", commit, "--", "hot*.py")
        return _DEFINED.findall(text), set(_CALLED.findall(text))

    def _red(self, commit: str) -> list[str]:
        """Name what is called and not there any more."""
        defined, called = self._names(commit)
        return sorted(called.difference(defined))

    def _lines(self, commit: str, path: str) -> list[str]:
        return self.remote.git("show", f"{commit}:{path}").splitlines()

    def _have_a_person_commit(self) -> None:
        """Have somebody change a line, rename a function with all its calls, or merge a branch that was delivered."""
        self.counts["commits of people"] += 1
        number = self.counts["commits of people"]
        if len(self.delivered) > OPEN or (self.delivered and self.dice.random() < 0.3):
            self._merge(self.delivered.pop(0))
        elif self.dice.random() < 0.1:
            self._rename(f"f{self.dice.randrange(FILES)}_{number}")
        else:
            path = f"hot{self.dice.randrange(FILES)}.py"
            lines = self._lines("main", path)
            lines[self.dice.randrange(1, len(lines))] = f"line by person {number}"
            self.remote.commit_on("main", path, "\n".join(lines) + "\n", f"Person {number}")

    def _rename(self, new: str) -> None:
        old = self.dice.choice(self._names("main")[0])
        self.counts["functions that people renamed"] += 1
        for number in range(FILES):
            path = f"hot{number}.py"
            text = self.remote.git("show", f"main:{path}")
            if (changed := re.sub(rf"\b{old}\b", new, text)) != text:
                self.remote.commit_on("main", path, changed + "\n", f"Rename {old}")

    def _merge(self, branch: str) -> None:
        """Merge a delivered branch as a forge does, if that is clean and green."""
        words = ("merge-tree", "--write-tree", "--no-messages", "main", branch)
        try:
            tree = self.remote.git(*words).split("\n")[0]
        except subprocess.CalledProcessError:
            self.counts["in conflict again when a reviewer came"] += 1
            return
        made = (
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "commit-tree",
            tree,
            "-p",
            "main",
            "-p",
            branch,
            "-m",
            "Merge",
        )
        commit = self.remote.git(*made)
        if self._red(commit):
            self.counts["red again when a reviewer came"] += 1
            return
        self.remote.git("update-ref", "refs/heads/main", commit)
        self.counts["merged"] += 1

    def _end(self, work: Work) -> None:
        """Count an end, and hold what was delivered against the target that it lies on."""
        plan = work.plan
        self.counts[f"{plan.state}{' ' + plan.halt['rule'] if plan.state == 'HALTED' else ''}"] += 1
        if plan.state != "COMPLETED" or not plan.record.delivery.branch:
            self.counts["without a branch"] += plan.state == "COMPLETED"
            return
        target, branch = plan.record.delivery.landed[0], f"planner/{work.name}"
        self.delivered.append(branch)
        diff = self.remote.git("diff", "-U0", target, branch).splitlines()
        for line in diff:
            if line.startswith("+") and not line.startswith("+++ ") and work.name not in line:
                self.lost.append(f"{work.name} added {line}")
            if line.startswith("-") and not line.startswith("--- ") and line[1:] not in work.removed:
                self.lost.append(f"{work.name} removed {line}")
        if self._red(branch):
            self.lost.append(f"{work.name} is red")


def main() -> None:
    """Play plans, and print what became of them; the exit code is 1 if a line of others was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.landing", description=__doc__)
    parser.add_argument("--plans", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        world = World(Path(folder), given.seed)
        counts = world.play(given.plans)
    for name, count in sorted(counts.items()):
        sys.stdout.write(f"| {name} | {count:,} |\n")
    sys.stdout.write(f"| lines of others that were lost | {len(world.lost)} |\n")
    sys.exit("\n".join(world.lost) or 0)


if __name__ == "__main__":
    main()
