"""Finds unverified work: successes without receipts, files that no tool looks at, and plans that run no tests.

Files and tests are computed from the planned steps and their ends, for the explanation of a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import FailureCategory, Mode
from schemas.base import StepState as S
from schemas.outcome import Outcome
from schemas.plain_outcome import PlainOutcome
from schemas.step import ROOT, PreviousFailure
from schemas.stored import PlanRecord, StepStatus
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.outcome_verdict import doubt, fit_evidence, proves_itself
from tasks.policy.pipeline import AFTER_END, JUDGES, LIMITS, Feature, Judgement, switched
from tasks.rules import budget
from tasks.rules.permission import exceeds, is_permitted
from tasks.strategies.criteria import StepTools
from tasks.text.folders import inner
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.contract import ToolCategory, operand
from tasks.toolchain.files import Role, role_of, stem_of, subject_of

MOST_NAMED = 5


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Emit an event if nothing proves the success of a step with a verification.

    If receipts are required, such a success is a failure. Always returns false.
    """
    if seen.failure is None and (changed := changed_tests(seen.step.facts, seen.outcome)):
        _doubt_tests(unit, seen, changed)
    requires = budget.requires_receipts(unit.plan.head)
    if seen.failure is None and (found := doubt(seen.step.facts, seen.outcome, requires_receipts=requires)):
        about = {"step_id": seen.step.step_id, "attempt": seen.attempt.attempt, "verified": False}
        unit.emit("outcome.unverified", about, found)
        seen.doubt, seen.failure = seen.doubt or found, failure_without_proof(found) if requires else None
    return False


def changed_tests(facts: Mapping[str, Any], outcome: Outcome) -> list[str]:
    """Return the failing tests that a step had to make pass, but changed although its patterns exclude them."""
    touched = dict.fromkeys((*outcome.touched_files, *outcome.created_files))
    spared = facts["excluded_patterns"]
    changed = (path for path in touched if path in spared and path not in facts["allowed_files"])
    return [path for path in changed if is_permitted(facts, path) and not exceeds(facts, path)]


def _doubt_tests(unit: UnitOfWork, seen: Judgement, files: Sequence[str]) -> None:
    """Doubt a success that changed the tests that it had to make pass, and emit an event."""
    seen.doubt = "the failing test itself was changed"
    about = {"step_id": seen.step.step_id, "attempt": seen.attempt.attempt, "verified": False}
    unit.emit("outcome.unverified", {**about, "files": [*files][:MOST_NAMED]}, seen.doubt)


def note_doubt(unit: UnitOfWork, seen: Judgement) -> None:
    """Mark a done step as not proved, or as run without the strict mode of a tool.

    The marks are in the step's `previous`; for a pre-step they are next to its `codes` and `text`. The plan stores
    which tests the step changed, although it had to make them pass.
    """
    status = seen.step.status
    if changed := changed_tests(seen.step.facts, seen.outcome):
        kept = unit.plan.changed_tests
        kept.files = [*dict.fromkeys((*kept.files, *changed))][:MOST_NAMED]
    is_plain = lacks_strict(seen.step.facts, seen.outcome)
    if seen.doubt or is_plain:
        empty = {"codes": "", "text": ""} if seen.step.facts["inserted_by"] else {}
        told = {**({"verified": False} if seen.doubt else {}), **({"strict": False} if is_plain else {})}
        status.previous = {**empty, **(status.previous or {}), **told}


def lacks_strict(facts: Mapping[str, Any], outcome: Outcome | PlainOutcome) -> bool:
    """Return whether a tool of a step had to run in its strict mode, and a receipt does not show that it did."""
    wanted = {tool["tool"] for tool in facts["verify_tools"] if tool.get("strict")}
    if not wanted:
        return False  # as of nearly every success
    shown = [each for each in outcome.verify or () if each.tool in wanted]
    return not (wanted <= {each.tool for each in shown} and all(each.strict for each in shown))


def has_no_doubt(plan: PlanRecord, facts: dict[str, Any], outcome: PlainOutcome) -> bool:
    """Return whether a success is proved, and in the strict mode where its step asks for it."""
    return proves_itself(plan, facts, outcome) and not lacks_strict(facts, outcome)


def is_strict(status: StepStatus) -> bool:
    """Return whether a step ran its tools in the strict mode that it asks for, by its receipts."""
    return bool((status.previous or {}).get("strict", True))


def is_verified(status: StepStatus, facts: Mapping[str, Any]) -> bool | None:
    """Return whether a done step was proved; None if it is not done, or has no verification."""
    if status.state != S.DONE or not facts["verify_tools"]:
        return None
    return bool((status.previous or {}).get("verified", True))


def failure_without_proof(why: str) -> dict[str, Any]:
    """Return the failure of a success without the required proof.

    Its category is UNKNOWN: the result of the verification is not known, so no revision could repair it.
    """
    suggestion = f"Success was reported, and {why}: run verify_tools, and report each in `verify`."
    return PreviousFailure(category=FailureCategory.UNKNOWN, suggestion=fit_evidence(suggestion)).model_dump()


class Planned(NamedTuple):
    """A step with its state.

    `verified` is false if the step is done without a proof. `strict` is false if a tool did not run in its strict mode.
    """

    facts: Mapping[str, Any]
    state: str
    verified: bool | None = None
    strict: bool = True

    @property
    def tools(self) -> list[Mapping[str, Any]]:
        """Return the tools of this step that verify the plan; empty if it did not succeed or only prepares another."""
        left_out = self.state in (S.FAILED, S.SKIPPED, S.HALTED) or self.verified is False
        prepares = self.facts.get("at_base") or (self.facts["inserted_by"] and self.facts["mode"] == Mode.TEST)
        tools = [] if left_out or prepares else self.facts["verify_tools"]
        return tools if self.strict else [{**tool, "strict": False} for tool in tools]


def tools_of(steps: Sequence[Planned]) -> list[StepTools]:
    """Return the tools that verify a plan, by step."""
    return [StepTools(step.facts["step_id"], step.facts["controller_task_spec"]["type"], step.tools) for step in steps]


def describe_unverified(steps: Sequence[Planned], catalogue: Catalogue) -> str | None:
    """Return one or two sentences about unverified parts; None if some tool verifies every file that may change.

    A test verifies the changes of the steps before it, except documents, and the file that it is named after.
    """
    if not any(map(_changes, steps)):
        return None
    tested = _before_tests(steps)
    files = dict.fromkeys(path for step in steps for path in _open_files(step, tested=step.facts["step_id"] in tested))
    told = []
    if files:
        named, more = ", ".join(list(files)[:MOST_NAMED]), len(files) - MOST_NAMED
        told.append(f"No step verifies {named}{f' and {more} more' if more > 0 else ''}.")
    if not any(_is_test(tool, catalogue) for step in steps for tool in step.tools):
        told.append("No step runs tests.")
    return " ".join(told) or None


def _open_files(step: Planned, *, tested: bool) -> Iterator[str]:
    """Yield the files that `step` may change and no tool verifies."""
    if not _changes(step):
        return
    files, tools = step.facts["allowed_files"], step.tools
    tests = (word.partition("::")[0] for tool in tools for word in tool["argv"])
    subjects = {subject_of(test) for test in tests if role_of(test) is Role.TEST}
    named = {path for path in files if any(_names(tool, path) for tool in tools)}
    named |= {path for path in files if role_of(path) is Role.SOURCE and stem_of(path) in subjects}
    wide = any(not any(_names(tool, path) for path in files) for tool in tools)
    for path in files:
        if path not in named and (role_of(path) is Role.DOCUMENT or not (tested or wide)):
            yield path


def _changes(step: Planned) -> bool:
    """Return whether the plan has changes of this step, or is to have them."""
    return step.facts["mode"] == Mode.PATCH and step.state not in (S.FAILED, S.SKIPPED, S.HALTED)


def _names(tool: Mapping[str, Any], path: str) -> bool:
    seen = inner(path, tool.get("cwd", ROOT))
    return seen is not None and operand(seen) in tool["argv"]


def _before_tests(steps: Sequence[Planned]) -> set[str]:
    """Return the steps that a step of mode `test` waits for, directly or through others."""
    by_id = {step.facts["step_id"]: step for step in steps}
    found: set[str] = set()
    checks = (step for step in steps if step.facts["mode"] == Mode.TEST and step.tools)
    waiting = [name for step in checks for name in step.facts["depends_on"]]
    while waiting:
        name = waiting.pop()
        if name in by_id and name not in found:
            found.add(name)
            waiting += by_id[name].facts["depends_on"]
    return found


def _is_test(tool: Mapping[str, Any], catalogue: Catalogue) -> bool:
    contract = catalogue.contracts.get(tool["tool"])
    return contract is not None and contract.category is ToolCategory.TEST


FEATURE = Feature(
    "unverified",
    (LIMITS.row(switched(budget.RECEIPTS)), JUDGES.row(judge), AFTER_END.row(note_doubt)),
    events=("outcome.unverified",),
    is_idle_about=has_no_doubt,
)
