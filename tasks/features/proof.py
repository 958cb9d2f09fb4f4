"""Checks by reports whether tests passed: an exit code only proves that a program ended, not that it ran tests.

Reports of the base are compared with later reports of the same command. Controllers without reports of tests are not
judged by them; the result of a plan states if it rests on exit codes alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import FailureCategory
from schemas.outcome import Outcome, ReportKind, TestWord
from schemas.plain_outcome import PlainOutcome
from schemas.step import ROOT, PreviousFailure
from schemas.stored import PlanRecord
from schemas.stored.features import Reports
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import MAX_TESTS, fit_evidence
from tasks.policy.pipeline import AFTER_END, JUDGES, LIMITS, Failure, Feature, Judgement, switched
from tasks.rules import budget
from tasks.toolchain.catalogue import Catalogue, catalogue_of
from tasks.toolchain.contract import Contract
from tasks.toolchain.files import Role, role_of
from tasks.toolchain.proof import Receipt, describe_unpassed, find_lack, judged_contract, unpassed

MOST_WITHOUT = 5
MOST_AT_BASE = 50
MOST_FILES_AT_BASE = 100  # of all commands
MOST_TOUCHED = 50
MOST_FILES = 5  # that are named
MOST_NAMED = 50  # failing tests of a command at the base
FILES_AT = 2  # place of the counts by file in a stored report, if it has them


class Run(NamedTuple):
    """A passed run of a tool that runs tests."""

    receipt: Receipt
    contract: Contract
    argv: tuple[str, ...]
    cwd: str


class Doubt(NamedTuple):
    """The reason to doubt a success. With a category, the success counts as a failure with these failing `tests`."""

    why: str
    category: FailureCategory | None = None
    tests: tuple[str, ...] = ()


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Turn a success into a failure if its test reports contradict it; emit an event about a smaller doubt.

    Reports from the plan's base commit are only stored. Always returns false.
    """
    facts, outcome = seen.step.facts, seen.outcome
    if _is_of_base(unit.plan, outcome):
        _keep_base(unit.plan, facts, outcome)
        return False
    if seen.failure is None and (found := find_doubt(unit.plan, facts, outcome)):
        if found.category:
            seen.failure = _failure_of(found)
        else:
            about = {"step_id": seen.step.step_id, "attempt": seen.attempt.attempt, "verified": False}
            unit.emit("outcome.unverified", about, fit_evidence(found.why))
            seen.doubt = seen.doubt or found.why
    return False


def find_doubt(plan: PlanRecord, facts: Mapping[str, Any], outcome: Outcome | PlainOutcome) -> Doubt | None:
    """Return the reason to doubt the tests of a success; None if reports prove them, or if no report can."""
    catalogue = catalogue_of(plan.head.tools)
    runs = list(_runs(catalogue, facts, outcome))
    for run in runs:
        if why := _find_lack(plan, run):
            return Doubt(why, FailureCategory.NO_PROOF)
    if budget.requires_reports(plan.head) and (without := _unreported(catalogue, facts, runs)):
        return Doubt(f"there is no report of the tests of {', '.join(without)}", FailureCategory.NO_PROOF)
    left = unpassed([(run.receipt, run.argv) for run in runs], catalogue)
    expected = left if _ran_none(runs) else _were_there(plan, runs)
    left |= {name: str(TestWord.ABSENT) for name in [*expected] if left.get(name) == ""}
    if wrong := {name: word for name, word in left.items() if word}:
        return Doubt(describe_unpassed(wrong), FailureCategory.TEST_REGRESSION, tuple(wrong))
    if left:
        return Doubt(f"no report has the failing test {', '.join(left)}")
    return _find_fewer(plan, runs, outcome.touched_files)


def _runs(catalogue: Catalogue, facts: Mapping[str, Any], outcome: Outcome | PlainOutcome) -> Iterator[Run]:
    """Yield the passed runs of the step's test tools, in order, up to the first receipt of another tool."""
    receipts: Sequence[Receipt] = outcome.verify or ()
    for tool, receipt in zip(facts["verify_tools"], receipts, strict=False):
        if tool["tool"] != receipt.tool:
            return
        if contract := judged_contract(catalogue, receipt.tool, tool["pass_codes"], receipt.exit_code):
            yield Run(receipt, contract, tuple(tool["argv"]), tool.get("cwd", ROOT))


def _find_lack(plan: PlanRecord, run: Run) -> str | None:
    base = plan.reports.base.get(_name_of(run.cwd, run.argv)) if plan.keeps(Reports) else None
    if base and base[0] == ReportKind.WHOLE and run.receipt.report != ReportKind.WHOLE:
        return f"{run.receipt.tool} gave a whole report of its tests before the plan, and gives none now"
    return find_lack(run.contract, run.receipt)


def _unreported(catalogue: Catalogue, facts: Mapping[str, Any], runs: Sequence[Run]) -> list[str]:
    """Return the names of the step's test tools that gave no whole report."""
    wanted = [
        tool["tool"]
        for tool in facts["verify_tools"]
        if judged_contract(catalogue, tool["tool"], tool["pass_codes"], 0)
    ]
    for run in runs:
        if run.receipt.report == ReportKind.WHOLE and run.receipt.tool in wanted:
            wanted.remove(run.receipt.tool)
    return list(dict.fromkeys(wanted))


def _ran_none(runs: Sequence[Run]) -> bool:
    """Return whether there are whole reports, and none of them has a test."""
    told = [run.receipt.tests for run in runs if run.receipt.report == ReportKind.WHOLE and run.receipt.tests]
    return bool(told) and not any(tests.collected for tests in told)


def _were_there(plan: PlanRecord, runs: Sequence[Run]) -> Iterator[str]:
    """Yield the goal's failing tests that reports of the same commands contained before the plan."""
    base = plan.reports.base if plan.keeps(Reports) else {}
    for run in runs:
        _, _, *more = base.get(_name_of(run.cwd, run.argv)) or (None, 0)
        yield from more[1] if len(more) > 1 else ()


def _find_fewer(plan: PlanRecord, runs: Sequence[Run], touched: Sequence[str]) -> Doubt | None:
    """Return a doubt if a tool collected fewer tests than before the plan; else None.

    The doubt is a failure if the goal names failing tests and the plan changed no test file. If the report counts tests
    by file, the doubt is such a failure unless the plan changed every file that has fewer tests.
    """
    if not plan.keeps(Reports):
        return None
    known, is_repair = plan.reports, bool(plan.head.context.get("failing_tests"))
    for run in runs:
        base, tests = known.base.get(_name_of(run.cwd, run.argv)), run.receipt.tests
        if not base or not tests:
            continue
        was = base[2] if len(base) > FILES_AT else {}
        if fewer := [file for file, count in was.items() if tests.files and tests.files.get(file, 0) < count]:
            told = ", ".join(
                f"{tests.files.get(file, 0)} in {file} ({was[file]} before)" for file in fewer[:MOST_FILES]
            )
            above = "" if run.cwd == ROOT else f"{run.cwd}/"
            fails = is_repair and not {*known.touched, *touched}.issuperset(above + file for file in fewer)
            return Doubt(
                f"{run.receipt.tool} collected fewer tests: {told}", FailureCategory.NO_PROOF if fails else None
            )
        if tests.collected < base[1]:
            why = f"{run.receipt.tool} collected {tests.collected} tests, and {base[1]} before the plan"
            fails = is_repair and not known.changed_tests
            return Doubt(why, FailureCategory.NO_PROOF if fails else None)
    return None


def _is_of_base(plan: PlanRecord, outcome: Outcome | PlainOutcome) -> bool:
    return outcome.verified_at is not None and outcome.verified_at == plan.head.context.get("base_sha")


def _keep_base(plan: PlanRecord, facts: Mapping[str, Any], outcome: Outcome) -> None:
    """Store the reports of test tools at the commit that the plan began with."""
    base = plan.reports.base
    for tool, receipt in zip(facts["verify_tools"], outcome.verify or (), strict=False):
        if not receipt.report or len(base) >= MOST_AT_BASE:
            continue
        tests = receipt.tests
        room = MOST_FILES_AT_BASE - sum(len(files) for _, _, *more in base.values() for files in more[:1])
        by_file = dict(tests.files) if tests and len(tests.files) <= room else {}
        there = [each for each, word in tests.named.items() if word != TestWord.ABSENT][:MOST_NAMED] if tests else []
        name = _name_of(tool.get("cwd", ROOT), tool["argv"])
        base[name] = [
            receipt.report.value,
            tests.collected if tests else 0,
            *([by_file, there] if there else [by_file] if by_file else []),
        ]


def _name_of(cwd: str, argv: Sequence[str]) -> str:
    return hashlib.blake2b(" ".join((cwd, *argv)).encode(errors="replace"), digest_size=6).hexdigest()


def _failure_of(found: Doubt) -> Failure:
    return PreviousFailure(
        category=found.category or FailureCategory.UNKNOWN,
        failing_tests=tuple(fit_evidence(test) for test in found.tests[:MAX_TESTS]),
        suggestion=fit_evidence(found.why),
    ).model_dump()


def note(unit: UnitOfWork, seen: Judgement) -> None:
    """Store facts for the proof: test tools without a report, whether a report was whole, and changed test files."""
    without, whole, tests = _news(unit.plan, seen.step.facts, seen.outcome)
    if without or whole or tests:
        known = unit.plan.reports
        known.without = [*dict.fromkeys((*known.without, *without))][:MOST_WITHOUT]
        known.whole, known.changed_tests = known.whole or whole, known.changed_tests or bool(tests)
        known.touched = [*known.touched, *tests][:MOST_TOUCHED]


def _news(
    plan: PlanRecord, facts: Mapping[str, Any], outcome: Outcome | PlainOutcome
) -> tuple[Collection[str], bool, Collection[str]]:
    """Return facts that the plan does not store yet: tools without a report, if a report is whole, changed tests."""
    if _is_of_base(plan, outcome):
        return (), False, ()
    known = plan.reports if plan.keeps(Reports) else Reports()
    runs = list(_runs(catalogue_of(plan.head.tools), facts, outcome))
    without = [run.receipt.tool for run in runs if run.receipt.report == ReportKind.NONE]
    new = [tool for tool in without if tool not in known.without] if len(known.without) < MOST_WITHOUT else []
    whole = not known.whole and any(run.receipt.report == ReportKind.WHOLE for run in runs)
    full = not known.base or len(known.touched) >= MOST_TOUCHED
    tests = () if full else dict.fromkeys(path for path in outcome.touched_files if role_of(path) is Role.TEST)
    return new, whole, [path for path in tests if path not in known.touched]


def proves_itself(plan: PlanRecord, facts: dict[str, Any], outcome: PlainOutcome) -> bool:
    """Return whether nothing casts doubt on a success, and no fact about it has to be stored."""
    for receipt in outcome.verify or ():
        if receipt.report is not None:
            break
    else:
        if not plan.keeps(Reports) and not budget.requires_reports(plan.head):
            return True
    if _is_of_base(plan, outcome) or any(_news(plan, facts, outcome)):
        return False
    return find_doubt(plan, facts, outcome) is None


FEATURE = Feature(
    "proof",
    (LIMITS.row(switched(budget.REPORTS)), JUDGES.row(judge), AFTER_END.row(note)),
    events=("outcome.unverified",),
    is_idle_about=proves_itself,
)
