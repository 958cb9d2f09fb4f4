"""Judges what a plan left: the agent's runs, the tree of its branch, and why attempts failed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.real.history import Parts, Repository, write_changes
from tests.real.result import Run
from tests.real.surroundings import Surroundings


def read_runs(folder: Path) -> tuple[Run, ...]:
    """Read what the agent noted of its runs."""
    noted = (json.loads(path.read_bytes()) for path in sorted(folder.iterdir()))
    return tuple(Run(each["step_id"], each["attempt"], each["mode"], each["did"], each["tokens"]) for each in noted)


def check_out_end(checkout: Path, remote: Path, ref: str, base: str) -> str:
    """Check out what a plan has landed, and the state before where it has landed nothing; return the commit."""
    repository, commit = Repository(checkout), base
    if Repository(remote).git("for-each-ref", ref):
        if remote != checkout:
            repository.git("fetch", "--quiet", str(remote), f"+{ref}:{ref}")
        commit = repository.line("rev-parse", f"{ref}^{{commit}}")
    go_to(checkout, commit)
    return commit


def go_to(checkout: Path, commit: str) -> None:
    """Check out a commit in place of what is there; what git ignores stays."""
    repository = Repository(checkout)
    repository.git("reset", "--quiet", "--hard")
    repository.git("checkout", "--quiet", "--detach", commit)


def is_fixed(checkout: Path, parts: Parts) -> bool:
    """Whether the sources are what the fix makes of them."""
    return all(
        place.read_bytes() == change.content if (place := checkout / path).is_file() else change.content is None
        for path, change in parts.sources.items()
    )


def red_tests(surroundings: Surroundings, parts: Parts, report: Path, known: frozenset[str]) -> tuple[str, ...]:
    """Run the tests of the fix on what is checked out; name those that fail, twice, and are not `known`."""
    write_changes(surroundings.checkout, parts.tests)
    red = surroundings.run_tests(report).failed - known
    if red:  # a flaky test is no fault of the plan
        red &= surroundings.run_tests(report).failed
    return tuple(sorted(red))


def reasons(answer: Mapping[str, Any], attempts: Path) -> Iterator[str]:
    """Say why a goal was rejected, why its plan halted, and why attempts failed that did not go wrong on purpose."""
    for error in answer.get("errors") or ():
        yield f"{answer.get('verdict')} {error.get('code')}: {error.get('message')} ({error.get('pointer')})"
    if answer.get("halt_rule"):
        yield f"{answer.get('state')} {answer['halt_rule']}: {answer.get('halt_reason')}"
    if answer.get("detail"):
        yield f"{answer.get('code')}: {answer['detail']}"
    for path in sorted(attempts.glob("*/*/*/outcome.json"), key=lambda each: each.stat().st_mtime):
        told = json.loads(path.read_bytes())
        if not told.get("success"):
            evidence = told.get("failure_evidence") or {}
            why = told.get("error_message") or evidence.get("stack_trace_head") or ""
            kind = "needs" if told.get("needs") else "released" if told.get("released") else evidence.get("category")
            yield f"{told.get('step_id')} attempt {told.get('attempt')}: {kind}: {_first_lines(why)}"


def _first_lines(text: str) -> str:
    return " / ".join(line.strip() for line in text.strip().splitlines()[-3:])[:300]
