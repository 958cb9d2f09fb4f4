"""Plays one fix: the state before, its report, the documented command, and what became of it."""

from __future__ import annotations

import base64
import difflib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.real import judging
from tests.real.agent import FIX
from tests.real.fix import CannotPlay, Fix
from tests.real.fleet import Fleet, run_fleet
from tests.real.history import Parts, check_out_before, globs_of, take_apart, write_changes
from tests.real.result import Result
from tests.real.surroundings import Surroundings, prepare
from worker.sources import junit

TOKENS = 45_000  # of a patch, as agents need them for a small bug
MOST_NAMED = 40  # tests; of more their files are named


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the agent behaves: its kind, how many wrong attempts come first, tokens of a patch, requests for files.

    One that is `naive` edits in every step, leaves scratch files and processes, commits by itself and prints a lot.
    """

    kind: str = FIX
    wrong: int = 0
    tokens: int = TOKENS
    asks: int = 2
    naive: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """The state before a fix, checked out: its commit, its report, which tests the fix mends, and which it does not."""

    commit: str
    report: Path
    mended: frozenset[str]
    stays: frozenset[str]


def play_fix(fix: Fix, behaviour: Behaviour, keep: Path | None = None, timeout: str = "20m") -> Result:
    """Play a fix in a folder of its own, which stays if it is `keep`; raises CannotPlay."""
    parts = take_apart(fix)
    globs = fix.files or globs_of(parts)
    with _home(keep) as home:
        base = check_out_before(fix, parts, home / "checkout")
        surroundings = prepare(fix, home / "checkout", home)
        state = _fail(fix, parts, surroundings, base, home)
        _write_knowledge(parts, surroundings.checkout, behaviour, home)
        with run_fleet(fix, surroundings.checkout, home, surroundings.variables) as fleet:
            began = time.monotonic()
            answer = _submit(globs, state, fleet, surroundings.checkout, timeout)
            seconds = time.monotonic() - began
            steps = _steps(fleet, answer, home)
        ref = fleet.ref.format(plan=answer.get("plan_id"))
        judging.check_out_end(surroundings.checkout, fleet.remote, ref, base)
        equal = judging.is_fixed(surroundings.checkout, parts)
        red = judging.red_tests(surroundings, parts, home / "report-after.xml", state.stays)
        runs = judging.read_runs(home / "runs")
        return Result(
            title=fix.title,
            language=fix.language,
            globs=globs,
            commit=fix.commit,
            state=str(answer.get("state") or answer.get("verdict") or answer.get("code")),
            right=not red,
            equal=equal,
            failing=len(state.mended),
            red=red,
            runs=runs,
            steps=steps,
            tokens=sum(run.tokens for run in runs),
            seconds=round(seconds, 1),
            reasons=tuple(judging.reasons(answer, home / "state" / "attempts")),
            plan_id=str(answer.get("plan_id") or ""),
        )


@contextmanager
def _home(keep: Path | None) -> Iterator[Path]:
    if not keep:
        with TemporaryDirectory(prefix="planner-real-", ignore_cleanup_errors=True) as name:
            yield Path(name).resolve()
        return
    if keep.exists():
        raise CannotPlay(f"{keep} is there already.")
    keep.mkdir(parents=True)
    yield keep.resolve()


def _fail(fix: Fix, parts: Parts, surroundings: Surroundings, base: str, home: Path) -> State:
    """Run the tests without the fix and with it; raises CannotPlay where it mends none."""
    report = home / "report.xml"
    before = surroundings.run_tests(report)
    write_changes(surroundings.checkout, parts.sources)
    after = surroundings.run_tests(home / "report-with-fix.xml")
    judging.go_to(surroundings.checkout, base)
    mended = before.failed - after.failed
    if not mended:
        how = f"{len(before.failed)} of {before.count} fail without it, {len(after.failed)} of {after.count} with it"
        first = "".join(f"\n{name}: {why}" for name, why in list(after.reasons.items())[:1])
        raise CannotPlay(f"{fix.title}: no failing test is mended by the fix ({how}).{first}")
    return State(base, report, mended, after.failed)


def _write_knowledge(parts: Parts, checkout: Path, behaviour: Behaviour, home: Path) -> None:
    (home / "runs").mkdir()
    files, places = {}, {}
    for path, change in parts.sources.items():
        content = None if change.content is None else base64.b64encode(change.content).decode()
        files[path] = {"content": content, "mode": change.mode}
        place = checkout / path
        places[path] = _lines(place.read_bytes() if place.is_file() else b"", change.content or b"")
    known = {"files": files, "places": places, "why": parts.subject, "tests": list(parts.tests)}
    (home / "knowledge.json").write_text(json.dumps(asdict(behaviour) | known))


def _lines(before: bytes, after: bytes) -> str:
    """Name the lines of a file that a fix changes, from the first to the last."""
    matcher = difflib.SequenceMatcher(None, before.splitlines(), after.splitlines(), autojunk=False)
    changed = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return f"{changed[0][1] + 1}-{max(changed[-1][2], changed[0][1] + 1)}" if changed else "1-1"


def _submit(globs: tuple[str, ...], state: State, fleet: Fleet, checkout: Path, timeout: str) -> Mapping[str, Any]:
    """Hand the report to the planner as docs/ci.md says, and wait for the end; returns what it printed."""
    words = ["submit", "--from-junit", str(state.report), *(word for glob in globs for word in ("--file", glob))]
    words += [word for name in _named_tests(state) for word in ("--test", name)]
    done = fleet.planner(*words, "--wait", "end", "--timeout", timeout, "--json", cwd=checkout)
    (state.report.parent / "logs" / "submit.log").write_text(f"planner {' '.join(words)}\n{done.stderr}{done.stdout}")
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise CannotPlay(f"planner submit ended with {done.returncode}:\n{done.stderr}{done.stdout}") from None
    return answer if isinstance(answer, dict) else {}


def _named_tests(state: State) -> tuple[str, ...]:
    """Name the tests to repair where others are red as well, which the fix does not mend."""
    if not state.stays:
        return ()
    before, after = (
        {test.name for test in junit.read(report.read_bytes()).failed}
        for report in (state.report, state.report.with_name("report-with-fix.xml"))
    )
    names = sorted(before - after)
    return tuple(names if len(names) <= MOST_NAMED else dict.fromkeys(name.partition("::")[0] for name in names))


def _steps(fleet: Fleet, answer: Mapping[str, Any], home: Path) -> tuple[str, ...]:
    """List the steps of the plan with their states; what it is like is kept beside the logs."""
    if not answer.get("plan_id"):
        return ()
    done = fleet.planner("show", str(answer["plan_id"]), "--json", cwd=home)
    (home / "logs" / "plan.json").write_text(done.stdout)
    if done.returncode:
        return ()
    steps = json.loads(done.stdout).get("steps", ())
    return tuple(f"{step['step_id']} {step['state']} (attempt {step['attempt']})" for step in steps)
