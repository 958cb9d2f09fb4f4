"""A host of the fleet: takes a step, has its agent work, verifies as the reference controller does, and reports.

Some hosts cannot work: they lack the repository, a tool, or a login. Some lie: they verify nothing and say success.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from random import Random
from typing import Any

from schemas import codec
from schemas.base import FailureCategory
from schemas.outcome import Outcome
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.could_not_run import why_not_run
from tests.cheats.ended import Ended, read
from tests.simulation.agent import NO_CHANGE, USUAL, Agent, Errors, Patch, Spec
from tests.simulation.permission import permitted
from tests.simulation.repository import Change, Fault, Repository, Tree, Work
from tests.simulation.tools import Printed, run
from worker.controller import wire
from worker.controller.wire import AttemptFailure

SECONDS = {"patch": (60, 300), "read_only": (20, 90), "test": (10, 40)}
TOKENS = {"patch": (3000, 9000), "read_only": (1500, 4000), "test": (0, 0)}
AGENT_LIMIT_S = 600
LEFT = "what another step did or left"
OVERLOADED = "Error: 529 the model is overloaded"
OF_PROVIDER = "provider"  # whose trouble that is, and an expired login, as the reference controller says
LONGER = ("memory", "failed_diffs")  # of a step's context: what plans remember makes the prompt longer
CHARS_A_TOKEN = 4
TOLD = 0.3  # how much less often an agent repeats a change of which it is told that it failed
CHEATED = "cheat"
SUPPRESSES = "suppresses a finding"  # the kind of cheats that make no test pass
OF_REPORTS = frozenset({"NO_PROOF", "TEST_REGRESSION"})  # what a controller refuses by the report of its tests
KNOWN = frozenset(Outcome.model_fields)  # a host says nothing that this version does not know

Answer = Callable[[Spec, Agent, Tree], Any]


class Ill(StrEnum):
    """Why a host cannot work, if it cannot."""

    REPOSITORY = "fatal: repository 'https://git.example/acme/shop.git/' not found"
    TOOL = "command not found"
    LOGIN = "Error: 401 the session has expired, please log in again"


@dataclass(frozen=True, slots=True)
class Host:
    """One controller of the fleet."""

    name: str
    ill: Ill | None = None
    lies: bool = False
    clumsy: float = 1.0  # how often its agent goes wrong, to the usual


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a host made of one attempt: what it reports, when, and what lands if the report counts."""

    body: dict[str, Any]
    seconds: int
    change: Change = NO_CHANGE
    note: str = ""  # why it failed, or what is wrong with it although it did not
    tried: Patch | None = None  # what its agent did, also where that failed
    faked: frozenset[str] = frozenset()  # items that are not done, although every tool says so
    told: bool = False  # whether something was said of what is faked


@dataclass(frozen=True, slots=True)
class Bench:
    """What a host works with: the repository, who answers questions, and how attempts go wrong.

    `repeats` is how often an agent makes the change once more that failed at the step before. `hard` are files that
    make mistakes so many times as likely, `takes` says how long a tool runs, in seconds, and `arrange` in which order
    those of a verification run. Of attempts that are to make failing tests pass, or to
    close findings, `cheats` is the share that cheats instead, each as a row of the corpus of cheats does.
    """

    repository: Repository
    answer: Answer
    mistakes: float
    errors: Errors = USUAL
    repeats: float = 0.0
    cheats: float = 0.0
    failed: dict[str, Patch] = field(default_factory=dict)  # by step
    asked: dict[str, set[str]] = field(default_factory=dict)  # files that the agents of a step have asked for
    hard: Callable[[Sequence[str]], float] = lambda _: 1.0
    takes: Callable[[dict[str, Any], Printed], int] = lambda _, __: 0
    arrange: Callable[[Sequence[dict[str, Any]], Tree], Sequence[dict[str, Any]]] = lambda tools, _: tools


def attempt(host: Host, spec: Spec, tree: Tree, bench: Bench, rng: Random) -> Attempt:
    """Do one attempt of a step on `tree`, the tip of the plan's branch."""
    mode = spec["mode"]
    seconds, tokens = rng.randint(*SECONDS[mode]), rng.randint(*TOKENS[mode])
    if tokens:
        known = [codec.dumps(found) for name in LONGER if (found := spec["context"].get(name))]
        tokens += sum(map(len, known)) // CHARS_A_TOKEN
    metrics = {"tokens_used": tokens, "patch_cycles": int(mode == "patch"), "duration_ms": seconds * 1000}
    body: dict[str, Any] = {"controller": host.name, "metrics": metrics, "touched_files": []}
    if host.ill is Ill.REPOSITORY or (host.ill is Ill.LOGIN and mode != "test"):
        return _cannot_begin(body, host.ill.value, OF_PROVIDER if host.ill is Ill.LOGIN else "")
    at_base = spec["context"].get("at") == "base"
    if host.ill is Ill.TOOL and not host.lies and spec["verify_tools"] and "released" in KNOWN and not at_base:
        return _cannot_verify_here(body, spec, host.ill.value)
    mistakes = bench.mistakes * host.clumsy * bench.hard(permitted(spec, bench.repository, tree))
    agent = Agent(bench.repository, rng, 0.0 if mode == "test" else mistakes, bench.errors)
    if mode == "read_only":
        return _reading(body, spec, agent, tree, bench, seconds)
    patch = _patch(agent, spec, tree, bench, rng) if mode == "patch" else Patch()
    if patch.out_of_time:
        return _failed(body, wire.agent_timeout(AGENT_LIMIT_S, ""), AGENT_LIMIT_S, patch.note)
    if patch.needs:
        return _needing(body, spec, bench, patch.needs, seconds)
    body |= _files_of(patch, bench.repository, tree)
    if spec.get("allowed_patterns"):
        body["patterns"] = True
    seen = bench.repository.base if at_base else tree.changed(patch.change)
    if at_base and "verified_at" in KNOWN:
        body["verified_at"] = spec["context"]["base_sha"]
    if host.lies:
        return replace(_lying(body, spec, bench, tree, seconds, patch.change), note=patch.note)
    return replace(_verified(body, host, spec, bench, seen, seconds, patch, rng), tried=patch)


def _patch(agent: Agent, spec: Spec, tree: Tree, bench: Bench, rng: Random) -> Patch:
    """Have the agent work, or do the same as the last time, which failed."""
    made = agent.patch(spec, tree, bench.asked.get(spec["step_id"], ()))
    if not bench.repeats or not (before := bench.failed.get(spec["step_id"])):
        return made
    chance = bench.repeats * (TOLD if spec["context"].get("failed_diffs") else 1.0)
    return before if rng.random() < chance else made


def _needing(body: dict[str, Any], spec: Spec, bench: Bench, files: Sequence[str], seconds: int) -> Attempt:
    """Ask for files, for each of them once."""
    bench.asked.setdefault(spec["step_id"], set()).update(files)
    body |= {"success": False, "needs": {"files": list(files), "reason": "the rest of the change is there"}}
    return Attempt(body, seconds, note="files were asked for")


def _verified(
    body: dict[str, Any], host: Host, spec: Spec, bench: Bench, seen: Tree, seconds: int, patch: Patch, rng: Random
) -> Attempt:
    if bench.cheats and (rows := _cheats_for(spec, bench, patch)) and rng.random() < bench.cheats:
        return _cheated(body, spec, patch, rng.choice(rows), seconds)
    receipts, last, failure, took = _verify(host, spec["verify_tools"], bench, seen, rng)
    seconds += took
    body["verify"] = receipts
    body["tests_passed"] = failure is None if receipts else None
    if last and "failing_tests" in KNOWN:
        body |= {"failing_tests": list(last.failing), "failing_tests_complete": last.complete}
    if failure and spec["context"].get("at") == "base" and "cannot_verify" in KNOWN:
        body |= _cannot_verify(receipts[-1], last)
    if failure:
        note = "broken host" if host.ill else patch.note or _left(spec, bench, seen, last)
        return _failed(body, failure, seconds, note)
    if last and last.exit_code:  # a code that passes
        finding = wire.tool_failure(receipts[-1]["tool"], last.text, timed_out=False)
        body["failure_evidence"] = finding.evidence.model_dump(mode="json")
    if patch.nothing_to_do and "nothing_to_change" in KNOWN:
        body["nothing_to_change"] = "these files are as they should be"
    return Attempt({**body, "success": True}, seconds, patch.change, patch.note)


def _cannot_verify(receipt: dict[str, Any], printed: Printed | None) -> dict[str, Any]:
    """Say that the last tool could not run, where that is so."""
    contract, text = CATALOGUE.contracts.get(receipt["tool"]), printed.text if printed else ""
    if printed is None or printed.timed_out or not (why := why_not_run(contract, receipt["exit_code"], text)):
        return {}
    return {"cannot_verify": {"tool": receipt["tool"], "reason": why}}


def _reading(body: dict[str, Any], spec: Spec, agent: Agent, tree: Tree, bench: Bench, seconds: int) -> Attempt:
    if agent.goes_wrong and agent.rng.random() < 1 / 3:
        return replace(_cannot_begin(body, OVERLOADED, OF_PROVIDER), note="provider overloaded")
    output = bench.answer(spec, agent, tree)
    return Attempt({**body, "success": True, "output": output}, seconds, note="wrong answer" * agent.goes_wrong)


def _left(spec: Spec, bench: Bench, seen: Tree, last: Printed | None) -> str:
    """Say why a verification failed although the attempt did nothing wrong."""
    repository = bench.repository
    if last and {test.name for test in repository.tests if test.flaky} >= {*last.failing} > set():
        return "flaky test"
    asked = frozenset(item.name for item in repository.items)
    argv = next((tool["argv"] for tool in spec["verify_tools"] if not passes(tool, repository, seen)), None)
    before = Tree(asked, repository.base.faults)
    if argv and run(argv, repository, before, Random(0)).exit_code and _same(argv, repository, seen, before):
        return "red before the goal"
    return LEFT


def passes(tool: dict[str, Any], repository: Repository, tree: Tree) -> bool:
    """Whether a tool passes on a tree, flaky tests aside."""
    return run(tool["argv"], repository, tree, Random(0)).exit_code in tool["pass_codes"]


def _same(argv: Sequence[str], repository: Repository, tree: Tree, before: Tree) -> bool:
    """Whether all that fails failed before."""
    now, then = (run(argv, repository, each, Random(0)) for each in (tree, before))
    return set(now.failing) <= set(then.failing) if now.failing else now.text == then.text


def _verify(
    host: Host, tools: Sequence[dict[str, Any]], bench: Bench, tree: Tree, rng: Random
) -> tuple[list[dict[str, Any]], Printed | None, AttemptFailure | None, int]:
    """Run the tools in order, as `worker.controller.programs.verify` does; the first failure ends it."""
    receipts: list[dict[str, Any]] = []
    printed, took = None, 0
    for tool in bench.arrange(tools, tree):
        printed = run(tool["argv"], bench.repository, tree, rng)
        took += bench.takes(tool, printed)
        if host.ill is Ill.TOOL:
            printed = Printed(127, f"{tool['argv'][0]}: {Ill.TOOL.value}\n")
        digest = "sha256:" + sha256(printed.text.encode()).hexdigest()
        receipts.append({"tool": tool["tool"], "exit_code": printed.exit_code, "output_digest": digest})
        if printed.timed_out or printed.exit_code not in tool["pass_codes"]:
            return receipts, printed, wire.tool_failure(tool["tool"], printed.text, printed.timed_out), took
    return receipts, printed, None, took


def _files_of(patch: Patch, repository: Repository, tree: Tree) -> dict[str, Any]:
    touched = patch.change.touched
    there = repository.existing(tree)
    made = touched, sorted(patch.change.does), _in_order(patch.change.mends), _in_order(patch.change.breaks)
    digest = sha256(repr(made).encode()).hexdigest()[:12]
    created = [path for path in touched if path not in there]
    return {"touched_files": list(touched), "created_files": created, "diff_hash": digest, "growth_kb": len(touched)}


def _in_order(faults: Iterable[Fault]) -> list[tuple[str, str, int, list[str]]]:
    return sorted((each.file, each.wrong.value, each.serial, sorted(each.tests)) for each in faults)


def _lying(body: dict[str, Any], spec: Spec, bench: Bench, tree: Tree, seconds: int, change: Change) -> Attempt:
    """Say success whatever the tree is like; of the base, that all that is red now was red there."""
    receipts = [{"tool": tool["tool"], "exit_code": 0} for tool in spec["verify_tools"]]
    body |= {"success": True, "tests_passed": True, "verify": receipts}
    if spec["context"].get("at") == "base" and "failing_tests" in KNOWN:
        receipts = [{"tool": tool["tool"], "exit_code": 1} for tool in spec["verify_tools"]]
        red = sorted(bench.repository.red(tree))
        body |= {"success": False, "tests_passed": False, "verify": receipts}
        body |= {"failing_tests": red, "failing_tests_complete": True}
    return Attempt(body, seconds, change)


def _cheats_for(spec: Spec, bench: Bench, patch: Patch) -> list[Ended]:
    """List the cheats by which a step may look done: one with failing tests, or one that closes findings."""
    works = {item.work for item in bench.repository.items if item.name in patch.change.does}
    if not works:
        return []
    if spec["context"].get("failing_tests"):
        return [row for row in read() if row.kind != SUPPRESSES]
    return [row for row in read() if row.kind == SUPPRESSES] if works <= {Work.LINT, Work.TYPES} else []


def _cheated(body: dict[str, Any], spec: Spec, patch: Patch, row: Ended, seconds: int) -> Attempt:
    """Report a change as the controller reported that of a row: it is refused, told of, or not noticed.

    What is faked stays so: no tool sees that anything is undone.
    """
    by_report = next((each for each in row.categories if each in OF_REPORTS), None)
    if refused := by_report or (None if row.is_completed or row.findings else "NO_PROOF"):
        why = f"the tests of {row.kind} are not proved"
        return _failed(body, wire.unproved(FailureCategory(refused), why), seconds, CHEATED)
    receipts = [{"tool": tool["tool"], "exit_code": 0} for tool in spec["verify_tools"]]
    body |= {"success": True, "tests_passed": True if receipts else None, "verify": receipts}
    if row.findings:
        places = [{"kind": kind, "path": patch.change.touched[0], "line": 1, "what": row.name} for kind in row.findings]
        body["integrity"] = {"counts": dict(row.findings), "places": places}
    return Attempt(body, seconds, patch.change, CHEATED, faked=patch.change.does, told=row.told)


def _cannot_begin(body: dict[str, Any], why: str, kind: str = "") -> Attempt:
    """Hand the attempt back where this version knows of that, else fail, within a second or two."""
    body["metrics"] = {"tokens_used": 0, "patch_cycles": 0, "duration_ms": 1500}
    body |= {"touched_files": [], "created_files": [], "growth_kb": 0, "diff_hash": None}
    if "released" in KNOWN:
        released = {"reason": why, **({"kind": kind} if kind else {})}
        return Attempt({**body, "success": False, "released": released}, 2, note="broken host")
    return _failed(body, wire.agent_failure(why, None), 2, "broken host")


def _cannot_verify_here(body: dict[str, Any], spec: Spec, why: str) -> Attempt:
    """Say before the agent works that a program is missing, where this version knows of that."""
    back = _cannot_begin(body, why)
    if "cannot_verify" not in KNOWN:
        return back
    tool = spec["verify_tools"][0]
    cannot = {"tool": tool["tool"], "reason": f"{tool['argv'][0]}: {why}"}
    return replace(back, body={**{k: v for k, v in back.body.items() if k != "released"}, "cannot_verify": cannot})


def _failed(body: dict[str, Any], failure: AttemptFailure, seconds: int, note: str) -> Attempt:
    evidence = failure.evidence.model_dump(mode="json")
    told = {"success": False, "failure_evidence": evidence, "error_message": failure.message}
    return Attempt({**body, **told}, seconds, note=note)
