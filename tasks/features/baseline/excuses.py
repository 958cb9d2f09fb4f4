"""Excuses tests that already failed before the plan.

A verification may fail because of tests that the goal does not name. Its first failure is not counted at once. A
baseline step runs the same tests once at the commit that the plan began with. Tests that fail both times are excused.
If other tests failed too, the failure counts then. Incomplete lists, and outcomes without a commit, excuse nothing.

A step that patches has lost its change by then, so it is tried again. From then on its test tools pass even if tests
fail, as long as they run to their end. The planner judges the step by the list of failing tests.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import GoalKind, Mode
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.outcome import Outcome
from schemas.plain_outcome import PlainOutcome
from schemas.step import PlannedStep, PreviousFailure
from tasks.base.errors import NeedsSteps
from tasks.features.baseline import red_checks
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy import failing, halt_rules, revision
from tasks.policy.flips import words_of
from tasks.policy.outcome_verdict import MAX_TESTS, fit_evidence
from tasks.policy.pipeline import Judgement
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import BASELINE, is_baseline, make_baseline, names_baseline
from tasks.policy.revision import has_room
from tasks.policy.run_again import IN_HEAD, runs_again
from tasks.rules import budget
from tasks.rules.strategy import Draft
from tasks.strategies.gap_report.checks import command_of_tool
from tasks.strategies.gap_report.evidence import all_failing_tests, mentions, runs_tests, tool_of
from tasks.strategies.task.goal_type import is_about_failure
from tasks.toolchain.catalogue import CATALOGUE, Catalogue, catalogue_of
from tasks.toolchain.classify import classify
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import Role, files_of
from tasks.toolchain.test_ids import file_and_name

AT_BASE: Mapping[str, Any] = {"at": "base"}
GOALS_TESTS = "goal's tests"  # the note of all of them, if the plan's head has only some
TOLERATED = "tolerate_red_tests"  # the name of the revision
_TEST_WORD = re.compile(r"(?i)\btest|\bsuite\b|\bgreen\b")
_RED_TEST = re.compile(r"^(?:FAILED|ERROR) ", re.MULTILINE)
_LAST_WORD = re.compile(r"[\w$-]+$")
_SUFFIX = re.compile(r"\.\w{1,5}$")
_PARAMETERS = re.compile(r"(?<=\w)\[.*\]$", re.DOTALL)  # those of a test; a folder may be called `[id]`


def limits_of(_: PlanSeed, goal: Goal, draft: Draft) -> Mapping[str, int]:
    """Return the limit that excuses failures from before the plan; empty if nothing may be excused."""
    excused = excuses_of(goal, draft.document)
    return {budget.EXCUSES: excused} if excused else {}


def excuses_of(goal: Goal, document: Mapping[str, Any] | None) -> int | None:
    """Return which failures from before the plan may be excused: a value of `budget.EXCUSES`, or None.

    A goal may repair tests that it does not name. With these excused it would be done before it began.
    """
    if not goal.context.base_sha:
        return None
    if goal.kind is GoalKind.GAP_REPORT:
        gap = (document or {}).get("gap") or {}
        return (
            budget.EXCUSE_ALL if _names_its_tests(goal, gap) or _is_about_no_test(goal, gap) else budget.EXCUSE_CHECKS
        )
    told = [goal.goal, (goal.campaign and goal.campaign.objective) or ""]
    is_told = bool(goal.context.failing_tests) or _shows_findings(goal)
    return budget.EXCUSE_ALL if is_told or not _is_about_failure(goal, told) else None


def _shows_findings(goal: Goal) -> bool:
    """Return whether the goal's log is of a compiler, type checker or linter, and neither log nor goal names tests."""
    log = goal.context.failure_log or ""
    if _TEST_WORD.search(goal.goal) or _tells_of_tests(log):
        return False
    return classify(log).category in (C.COMPILATION_ERROR, C.TYPE_ERROR, C.LINT_ERROR)


def _names_its_tests(goal: Goal, gap: Mapping[str, Any]) -> bool:
    """Return whether a gap is about failing tests that the goal names in full: other tests may be excused then."""
    named = all_failing_tests(str(gap.get("evidence") or ""))
    return bool(named) and set(named) <= set(goal.context.failing_tests)


def _is_about_no_test(goal: Goal, gap: Mapping[str, Any]) -> bool:
    """Return whether the gap of an iteration is not judged by tests, so that failing tests may be excused."""
    description = str(gap.get("description") or "")
    if gap.get("category") in ("roadmap", "inbox"):
        return not _is_about_failure(goal, [goal.goal, description])
    if runs_tests(tool_of(description)):
        return False
    if command_of_tool(CATALOGUE, tool_of(description)):  # that tool is run, and nothing excuses it
        return True
    found = str(gap.get("evidence") or "")  # of a tool outside of the catalogue: by its words
    return bool(found) and not _tells_of_tests(found)


def _tells_of_tests(evidence: str) -> bool:
    """Return whether an output is about failing tests, by its words and the files that it names."""
    if "fail" in evidence.casefold() or _RED_TEST.search(evidence):
        return True
    return bool(files_of(mentions(evidence), Role.TEST))


def _is_about_failure(goal: Goal, told: Iterable[str]) -> bool:
    unnamed = goal.context.model_copy(update={"failing_tests": ()})
    return any(is_about_failure(goal.model_copy(update={"goal": each, "context": unnamed})) for each in told if each)


def keep_goals_tests(unit: UnitOfWork, _: PlanSeed, goal: Goal, __: Draft) -> None:
    """Store the goal's failing tests in a note, if there are more than the plan's head has."""
    if unit.plan.limits.get(budget.EXCUSES) and len(goal.context.failing_tests) > IN_HEAD:
        unit.keep_note(GOALS_TESTS, list(goal.context.failing_tests))


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Store the result of a baseline step; in other steps, excuse tests that failed before the plan.

    Returns whether the step needs no other judge.
    """
    step, outcome = seen.step, seen.outcome
    if is_baseline(step.facts) and _end_baseline(unit, step, outcome, seen.failure):
        return True
    is_landed = seen.failure is None
    failure = _tolerated(unit, step, outcome) if is_landed else seen.failure
    if failure is None:
        return False
    if not is_landed and _awaits_base(unit, step, outcome, failure, seen.attempt.at):
        return True
    tests = _red_tests(unit, step, outcome, failure)
    seen.failure, excused = _left(unit, step, tests, failure) if tests else (failure, False)
    if tests and not is_landed and step.facts["mode"] == Mode.PATCH and _was_red(unit, step, tests):
        if excused:
            unit.move_step(step, S.ACTIVE.value, "retried", failure["category"])
        _tolerate(unit, step, failure["category"], again=excused)
        return excused
    seen.is_excused = excused
    seen.reason = BASELINE if excused else None
    return False


def given_to(_: UnitOfWork, step: Step) -> Mapping[str, Any] | None:
    """Return the context of a baseline, which runs at the commit that the plan began with; None for another step."""
    return AT_BASE if is_baseline(step.facts) else None


def _awaits_base(unit: UnitOfWork, step: Step, outcome: Outcome, failure: dict[str, Any], began: int) -> bool:
    """Insert the baseline of a step's verification before its next attempt; returns whether that happened.

    It is inserted once. This failure is not counted before the baseline has ended.
    """
    if step.facts["quick_checks"] and red_checks.awaits_base(unit, step, outcome, failure):
        return True
    tests = _red_tests(unit, step, outcome, failure)
    if not tests or all(_is_of(test, _goals_tests(unit)) for test in tests):
        return False
    known = unit.note(_name_of_base(unit, step))
    if (known and not _is_of_another(step, known)) or not has_room(unit.plan):
        return False
    was = PlannedStep.model_validate(step.facts)
    ran = tuple(was.verify_tools[at] for at in _run_at_base(unit, step.facts))
    before = make_baseline(was, ran, unit.plan.structure.taken, _catalogue(unit))
    revised = was.model_copy(update={"depends_on": (*was.depends_on, before.step_id)})
    unit.keep_note(_name_of_base(unit, step), {"by": step.step_id, "tests": None})
    kept = {"outcome": failing.keep(outcome), "failure": failure, "tests": sorted(tests), "began": began}
    unit.keep_note(_name_of_red(step), kept)
    revision.carry_out(unit, step, revision.Revision(revised, before, (BASELINE,)), failure["category"])
    step.status.previous = failure
    return True


def _end_baseline(unit: UnitOfWork, step: Step, outcome: Outcome, failure: dict[str, Any] | None) -> bool:
    """Store the complete result of a baseline; end a baseline that failed, without counting its failure.

    Returns whether the step ended here. A failure that halts a plan at once does not end the step here.
    """
    if failure is None and step.facts["quick_checks"]:
        red_checks.keep_base(unit, step, outcome)
        return False
    if failure is None:
        base_sha = unit.plan.head.context.get("base_sha")
        whole = outcome.verified_at == base_sha and outcome.failing_tests_complete
        if whole and _ran_wholly(step.facts, outcome, _catalogue(unit)):
            unit.keep_note(
                _name_of_base(unit, step), {"by": step.facts["inserted_by"], "tests": list(outcome.failing_tests)}
            )
        return False
    if failure["category"] in halt_rules.AT_ONCE:
        return False
    step.status.previous = failure
    unit.end_step(step, S.FAILED.value, "failed", failure["category"])
    return True


def judge_waiting(unit: UnitOfWork, step: Step, ended: Step) -> bool:
    """Judge `step` by its earlier failure, after the baseline `ended`, which it waited for.

    Returns false if `ended` is no baseline. A failed baseline does not fail the plan. Raises NeedsSteps if the snapshot
    lacks `step`.
    """
    if not names_baseline(ended.step_id):
        return False
    if step.spec is None:
        raise NeedsSteps(frozenset({step.step_id}))
    kept = unit.note(_name_of_red(step))
    if ended.status.state == S.FAILED and not ended.status.skipped_by:
        unit.plan.structure.replaced += 1
    if "check" in kept:
        red_checks.judge(unit, step, kept)
        return True
    base = unit.note(_name_of_base(unit, step))
    if base and base["tests"] is None and base["by"] == step.step_id:  # no result, and no baseline will run again
        unit.keep_note(_name_of_base(unit, step), {**base, "over": True})
    failure, excused = _left(unit, step, kept["tests"], kept["failure"])
    outcome = Outcome.model_validate(kept["outcome"])
    if step.facts["mode"] == Mode.PATCH and _was_red(unit, step, kept["tests"]):
        _tolerate(unit, step, kept["failure"]["category"], again=excused)
        if excused:
            return True
    if excused or failure is None:
        halt_rules.record_success(unit, step, outcome)
        step.status.previous = None
        unit.end_step(step, S.DONE.value, "done", BASELINE)
    elif runs_again(unit, step, failure, kept["tests"], kept["began"]):
        unit.make_ready(step)
    else:
        failing.count_failure(unit, step, failure, outcome)
    return True


def _tolerated(unit: UnitOfWork, step: Step, outcome: Outcome) -> dict[str, Any] | None:
    """Return the test failure of a success whose tools may pass although tests fail; None if no test failed."""
    if found_nothing(step.facts, outcome):
        return None
    contracts = _catalogue(unit).contracts
    ran = ((contracts.get(each.tool), each.exit_code) for each in outcome.verify or ())
    if not any(known and known.category is ToolCategory.TEST and code not in known.pass_codes for known, code in ran):
        return None
    trace = outcome.failure_evidence and outcome.failure_evidence.stack_trace_head
    return PreviousFailure(
        category=C.TEST_REGRESSION,
        failing_tests=tuple(fit_evidence(test) for test in outcome.failing_tests[:MAX_TESTS]),
        trace=fit_evidence(trace) if trace else None,
    ).model_dump()


def found_nothing(facts: Mapping[str, Any], outcome: Outcome | PlainOutcome) -> bool:
    """Return whether each tool of a successful patch ended with exit code 0; always true for other modes."""
    return facts["mode"] != Mode.PATCH or not any(each.exit_code for each in outcome.verify or ())


def _was_red(unit: UnitOfWork, step: Step, tests: Collection[str]) -> bool:
    """Return whether any of `tests` failed before the plan and is not one of the goal's own."""
    base = unit.note(_name_of_base(unit, step))
    before, own = frozenset(base["tests"] or () if base else ()), _goals_tests(unit)
    return any(test in before and not _is_of(test, own) for test in tests)


def _tolerate(unit: UnitOfWork, step: Step, category: str, *, again: bool) -> None:
    """Let the test tools of a step pass even if tests fail, as long as they run to their end.

    With `again` the step is also tried again.
    """
    was, catalogue = PlannedStep.model_validate(step.facts), _catalogue(unit)
    tests = _run_at_base(unit, step.facts)
    tools = tuple(catalogue.as_ran(tool) if at in tests else tool for at, tool in enumerate(was.verify_tools))
    revised = was.model_copy(update={"verify_tools": tools})
    if revised != was:
        revision.carry_out(unit, step, revision.Revision(revised, None, (TOLERATED,)), category)
    if again:
        step.status.previous = None
        unit.make_ready(step)


def _left(
    unit: UnitOfWork, step: Step, tests: Collection[str], failure: dict[str, Any]
) -> tuple[dict[str, Any] | None, bool]:
    """Return `failure` without the tests that also failed before the plan, and whether all `tests` are excused.

    The failure is None if no test is left.
    """
    base = unit.note(_name_of_base(unit, step))
    if not base or base["tests"] is None:
        return failure, False
    before, goals_tests = frozenset(base["tests"]), _goals_tests(unit)
    left = [test for test in sorted(tests) if test not in before or _is_of(test, goals_tests)]
    if not left:
        return None, True
    return {**failure, "failing_tests": tuple(fit_evidence(test) for test in left[:MAX_TESTS])}, False


def _red_tests(unit: UnitOfWork, step: Step, outcome: Outcome, failure: Mapping[str, Any]) -> frozenset[str]:
    """Return all failing tests if they are the only fault of the step and their list is complete; else nothing."""
    facts = step.facts
    if unit.plan.head.limits.get(budget.EXCUSES) != budget.EXCUSE_ALL:
        return frozenset()
    if facts["mode"] == Mode.READ_ONLY or facts["inserted_by"] or failure["category"] != C.TEST_REGRESSION:
        return frozenset()
    if not outcome.failing_tests_complete or not _ran_wholly(facts, outcome, _catalogue(unit)):
        return frozenset()
    return frozenset(outcome.failing_tests)


def _ran_wholly(facts: Mapping[str, Any], outcome: Outcome, catalogue: Catalogue) -> bool:
    """Return whether each tool of the step ran to its end, and each one that did not pass named its failing tests.

    A tool of tests has exit codes for failing tests. After another exit code, such as that of an error in collecting,
    there may be more failing tests than it names.
    """
    receipts = outcome.verify or ()
    if Counter(each.tool for each in receipts) != Counter(tool["tool"] for tool in facts["verify_tools"]):
        return False
    red = False
    for receipt in receipts:
        contract = catalogue.contracts.get(receipt.tool)
        if contract is None:
            return False
        if receipt.exit_code not in contract.pass_codes:
            if contract.category is not ToolCategory.TEST or receipt.exit_code not in contract.ran_codes:
                return False
            red = True
    return red == bool(outcome.failing_tests)


def _goals_tests(unit: UnitOfWork) -> Collection[str]:
    """Return the tests that the plan has to make pass; these are never excused."""
    in_head: Collection[str] = unit.plan.head.context.get("failing_tests") or ()
    return in_head if len(in_head) < IN_HEAD else unit.note(GOALS_TESTS) or in_head


def _is_of(test: str, named: Collection[str]) -> bool:
    """Return whether `test` may be one of the `named` tests, perhaps in another form, or is in a named file.

    A name with parameters does not match other parameters of the test. A name with a file does not match another file.
    """
    bare, parameters = _parted(test)
    file, _ = file_and_name(bare)
    for name, own in (_parted(each.removeprefix("./")) for each in named):
        there, _ = file_and_name(name)
        is_elsewhere = file and there and not (file.endswith(there) or there.endswith(file))
        if is_elsewhere or (own and parameters and own != parameters):
            continue
        if bare.startswith(name) or bare.endswith(name) or name.endswith(bare):
            return True
        if not _SUFFIX.search(name) and _last_word(name) == _last_word(bare):
            return True
    return False


def _parted(test: str) -> tuple[str, str]:
    """Split the name of a test into the name without parameters, and the parameters."""
    found = _PARAMETERS.search(test)
    return (test[: found.start()], found.group()) if found else (test, "")


def _last_word(name: str) -> str:
    found = _LAST_WORD.search(name.partition("[")[0].rstrip(")"))
    return found.group() if found else name


def _catalogue(unit: UnitOfWork) -> Catalogue:
    return catalogue_of(unit.plan.head.tools)


def _run_at_base(unit: UnitOfWork, facts: Mapping[str, Any]) -> list[int]:
    """Return the indexes of the step's tools that run tests; its baseline runs these tools."""
    contracts = _catalogue(unit).contracts
    known = (contracts.get(tool["tool"]) for tool in facts["verify_tools"])
    return [at for at, contract in enumerate(known) if contract and contract.category is ToolCategory.TEST]


def _is_of_another(step: Step, known: Mapping[str, Any]) -> bool:
    """Return whether the baseline of another step, with this verification, has not ended yet."""
    return known["tests"] is None and known["by"] != step.step_id and "over" not in known


def _name_of_base(unit: UnitOfWork, step: Step) -> str:
    """Return the name of the note with the result at the base: the same for all steps with the same tests."""
    tools = step.facts["verify_tools"]
    told = "\n".join(" ".join(words_of(tools[at])) for at in _run_at_base(unit, step.facts))
    return "base " + hashlib.blake2b(told.encode(errors="replace"), digest_size=8).hexdigest()


def _name_of_red(step: Step) -> str:
    return f"red {step.step_id}"
