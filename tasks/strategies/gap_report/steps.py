"""The steps of an iteration: patches in the order of its actions, then the verification.

The last step lints, checks types and runs the tests; a patch is verified by its own files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from schemas.base import MODE_OF_TYPE, RiskLevel, StepType
from schemas.kinds.gap_report import ActionType, PlannedAction
from schemas.step import MAX_LITERAL, ControllerTaskSpec, JudgedBy, PlannedStep, VerifyTool
from tasks.rules.judging import base_judges, suite_of
from tasks.rules.risk import RISK, ROLLBACK, assess_declared, estimate, explain_raise, is_below
from tasks.strategies.drafting.pieces import cut, join_pieces
from tasks.strategies.drafting.project import only_documents
from tasks.strategies.drafting.repeats import only_repeats
from tasks.strategies.gap_report.checks import is_run_by
from tasks.strategies.gap_report.document import Iteration, judge_of, level_of
from tasks.strategies.gap_report.evidence import runs_tests, tool_of
from tasks.strategies.gap_report.verification import (
    Verification,
    check_of_all,
    make_strict,
    own_verification,
    verification,
)
from tasks.text.fields import MAX_INTENT, MAX_TITLE, fit
from tasks.toolchain.command_lines import render
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import Role, chunks, files_of, may_be_of_tests

EXPLORE_ID = "explore-scope"
VERIFY_ID = "verify"
CHECK_ID = "check"
MAX_CRITERIA = 1000
MAX_TRIED = 100  # characters
UNVERIFIED = Verification()

_ASKED_AGAIN = (
    "Patching {} did not help; input.failure has what failed last. Find the cause: read the tests, and what they run, "
    "as far as it goes. Name the files at fault, also those that may not change, and what is wrong there."
)
_DOES = {ActionType.CREATE: "Create", ActionType.MODIFY: "Change", ActionType.DELETE: "Delete"}
_ASKED = "Find out which of the files that may change must change. Name as few as will do, and the change in each."


@dataclass(frozen=True, slots=True)
class PatchPiece:
    """The files of one patch, its risk level, and the action that it belongs to."""

    action: PlannedAction
    files: tuple[str, ...]
    level: RiskLevel
    part: str = ""  # such as ` (1 of 2)`


def must_explore(iteration: Iteration) -> bool:
    """Return whether a step has to find files first: an action names none, and one step may not change all."""
    allowed, actions = iteration.allowed, iteration.plan.actions
    if all(action.target_files for action in actions):
        return False
    return len(allowed) > RISK[_level(allowed, ActionType.MODIFY, iteration)].max_files


def make_steps(iteration: Iteration) -> tuple[PlannedStep, ...]:
    """Return the patches in sequence, then the step that verifies all of them; empty if no file may change.

    If the only patch already passes the whole verification, the last step is left out.
    """
    again = iteration.state.suffix
    plan, project = iteration.plan, iteration.project
    by_action = [list(_pieces(action, iteration)) for action in plan.actions]
    pieces = [piece for some in by_action for piece in some]
    if not pieces:
        return ()
    files = dict.fromkeys(path for piece in pieces for path in piece.files)
    gone = _files_of(pieces, ActionType.DELETE)
    left = tuple(path for path in files if path not in gone)
    if iteration.state.checking:
        whole = check_of_all(plan.gap, project, iteration.state.all_checks)
    else:
        state, new = iteration.state, _files_of(pieces, ActionType.CREATE)
        whole = verification(plan.gap, project, left, state.all_checks, failed=state.failed, new=new)
    steps: list[PlannedStep] = []
    after: tuple[str, ...] = ()
    for number, piece in enumerate(pieces, 1):
        if piece.action.action_type is ActionType.DELETE:
            tools = Verification(project.tests)  # deleted files cannot be checked
        else:
            tools = _own_tools(iteration, piece, whole=len(pieces) == 1)
        steps.append(_patch(iteration, piece, f"action-{number}{again}", tools, after))
        after = (steps[-1].step_id,)
    kind = StepType.TEST if whole.tools else StepType.REVIEW  # if no tool can verify, a review has to
    about = _about(iteration, f"Verify that this is done: {plan.gap.description}")
    patches = iter(steps)
    joined = [step for some in by_action for step in _join(list(islice(patches, len(some))), iteration)]
    last_step = _step(iteration, VERIFY_ID + again, "Verify the iteration", about, kind, whole, after)
    if own := _own_tests(iteration):
        last_step = last_step.model_copy(update={"judged_by": JudgedBy(own=own)})
    if len(joined) == 1 and _is_left_out(last_step, whole, joined[0], iteration):
        return (joined[0],)
    return (*joined, last_step.model_copy(update={"retry_limit": 0}) if iteration.state.checking else last_step)


def _is_left_out(last_step: PlannedStep, whole: Verification, patch: PlannedStep, iteration: Iteration) -> bool:
    """Return whether the last step would only repeat the verification of the only patch.

    Rounds of a check always need the last step, and so do tests that the base judges.
    """
    is_judged = suite_of(last_step) and base_judges(iteration.project.goal) is not None
    return not (iteration.state.checking or is_judged) and only_repeats(whole.tools, patch, whole.added)


def _join(steps: Sequence[PlannedStep], iteration: Iteration) -> list[PlannedStep]:
    """Return the patches of one action such that only one of them has to change a file.

    For roadmap and inbox gaps, one of the patches of tests has to change a file, too.
    """
    joined = join_pieces(steps)
    if iteration.plan.gap.category not in ("roadmap", "inbox"):
        return joined
    tests = [step for step in steps if len(files_of(step.allowed_files, Role.TEST)) == len(step.allowed_files)]
    apart = {step.step_id: step for step in join_pieces(tests)}
    return [apart.get(step.step_id, step) for step in joined]


def _own_tests(iteration: Iteration) -> tuple[str, ...]:
    """Return the test files that the gap names or an action deletes: their versions at the base do not judge the plan.

    The result is empty if the gap is about failing tests.
    """
    if is_about_tests(iteration):
        return ()
    gap, actions = iteration.plan.gap, iteration.plan.actions
    text = f"{gap.description}\n{gap.evidence}"
    named = (
        path
        for action in actions
        for path in action.target_files
        if action.action_type is ActionType.DELETE or path in text
    )
    return tuple(dict.fromkeys(path for path in named if may_be_of_tests(path)))


def _files_of(pieces: Sequence[PatchPiece], action: ActionType) -> frozenset[str]:
    return frozenset(path for piece in pieces if piece.action.action_type is action for path in piece.files)


def check_step(iteration: Iteration) -> PlannedStep | None:
    """Return the step that runs the checks and tests to find failures; None if no tool can find any."""
    gap = iteration.plan.gap
    judged = check_of_all(gap, iteration.project, iteration.state.all_checks)
    about = _about(iteration, f"Find out whether this is so: {gap.description}")
    step = _step(iteration, CHECK_ID, "Run the check", about, StepType.TEST, judged)
    return step.model_copy(update={"retry_limit": 0}) if judged.tools else None


def _own_tools(iteration: Iteration, piece: PatchPiece, *, whole: bool) -> Verification:
    """Return the tools that verify one patch by its own files.

    Tests among these files are left out if other tests fail because of another gap.
    """
    state, judged = iteration.state, whole and iteration.state.judges is None
    gap, project = iteration.plan.gap, iteration.project
    tests = files_of(piece.action.target_files, Role.TEST) if judged and is_about_tests(iteration) else ()
    own = own_verification(gap, project, piece.files, state.all_checks, failed=state.failed, whole=judged, tests=tests)
    if not state.checking:
        return own
    return Verification(make_strict(own.tools, (), gap, project.catalogue))  # their findings are the gap's subject


def explore_step(iteration: Iteration) -> PlannedStep:
    """Return the step that finds the files of an action, or the cause of a failure after a fix was tried."""
    tried = iteration.state.tried
    asked = _ASKED_AGAIN.format(fit(", ".join(tried), MAX_TRIED)) if tried else _ASKED
    intent = f"{asked} {_about(iteration, iteration.plan.actions[0].description)}"
    step = _step(iteration, EXPLORE_ID, "Find the files to change", intent, StepType.EXPLORE)
    named = "The files to change are named."
    return step.model_copy(update={"success_criteria": named, "keeps_answer": True, "finds_places": True})


def lacks_verification(steps: Sequence[PlannedStep]) -> bool:
    """Return whether the risk of a patch requires tools and the patch has none."""
    return any(step.allowed_files and RISK[step.risk_level].tests_required and not step.verify_tools for step in steps)


def _pieces(action: PlannedAction, iteration: Iteration) -> Iterator[PatchPiece]:
    """Yield the patches of an action, each with as many files as their risk allows, riskier files first."""
    if not action.target_files:  # the step chooses among all files that may change
        yield from _pieces_of_all(action, iteration)
        return
    files = tuple(path for path in iteration.allowed if path in action.target_files)
    if files and is_about_tests(iteration) and (together := _in_one_step(files, action, iteration)):
        yield together
        return
    parts = tuple(cut(files, lambda path: _level((path,), action.action_type, iteration)))
    for number, (part, level) in enumerate(parts, 1):
        yield PatchPiece(action, part, level, f" ({number} of {len(parts)})" if len(parts) > 1 else "")


def _pieces_of_all(action: PlannedAction, iteration: Iteration) -> Iterator[PatchPiece]:
    """Yield the patches of an action without target files: together these may change all allowed files.

    One step gets all files if it may. Otherwise each part has files of one risk level, riskier files first.
    """
    if not must_explore(iteration):
        if iteration.allowed:
            yield PatchPiece(action, iteration.allowed, _level(iteration.allowed, ActionType.MODIFY, iteration))
        return
    levels = {path: _level((path,), ActionType.MODIFY, iteration) for path in iteration.allowed}
    parts = [
        (part, level)
        for level in reversed(tuple(RISK))
        for part in chunks(tuple(path for path in levels if levels[path] is level), MAX_LITERAL)
    ]
    for number, (part, level) in enumerate(parts, 1):
        yield PatchPiece(action, part, level, f" ({number} of {len(parts)})" if len(parts) > 1 else "")


def _in_one_step(files: tuple[str, ...], action: PlannedAction, iteration: Iteration) -> PatchPiece | None:
    """Return one patch of tests and the sources that may be at fault; None if one step may not change so many files.

    So the tests judge the patch directly. Other allowed sources are added if the step may change them at the same risk.
    """
    level, left_out = _level(files, action.action_type, iteration), {*files, *iteration.state.absent}
    others = tuple(path for path in files_of(iteration.allowed, Role.SOURCE) if path not in left_out)
    most = RISK[level].max_files
    if len(files) + len(others) <= most and _level((*files, *others), ActionType.MODIFY, iteration) is level:
        files = (*files, *others)
    return PatchPiece(action, files, level) if len(files) <= most else None


def is_about_tests(iteration: Iteration) -> bool:
    """Return whether the gap of an iteration is about failing tests."""
    gap = iteration.plan.gap
    if iteration.state.checking:
        return runs_tests(gap.description)
    return gap.category.casefold() == "quality" and runs_tests(tool_of(gap.description))


def _level(files: Sequence[str], action: ActionType, iteration: Iteration) -> RiskLevel:
    worst = RiskLevel.LOW
    for path in files:
        level = assess_declared(level_of(path, action, failed=iteration.state.failed), (path,)).level
        worst = level if is_below(worst, level) else worst
    return worst


def _patch(
    iteration: Iteration, piece: PatchPiece, step_id: str, judged: Verification, after: tuple[str, ...]
) -> PlannedStep:
    action, files = piece.action, piece.files
    verb, hint = "Do", "Change those of these files that need it."
    if action.target_files:
        verb = _DOES[action.action_type]
        hint = f"{verb} these files."
    title = action.description
    if not title.casefold().startswith(verb.casefold()):
        title = f"{verb}: {title}"
    if tally := iteration.plan.gap.tally:
        title = f"{title}: {tally}"
    title = fit(title, MAX_TITLE - len(piece.part)) + piece.part
    if only_documents(files) and piece.level is RiskLevel.LOW:
        judged = Verification()
    declared = level_of(files[0], action.action_type, failed=iteration.state.failed)
    changes = {
        "allowed_files": files,
        "risk_level": piece.level,
        "controller_task_spec": ControllerTaskSpec(type=StepType.PATCH, target_file=files[0], hint=hint),
        "rollback_hint": ROLLBACK,
        "guidance": explain_raise(assess_declared(declared, files), iteration.state.guidance),
    }
    step = _step(iteration, step_id, title, _about(iteration, action.description), StepType.PATCH, judged, after)
    return step.model_copy(update=changes)


def _step(
    iteration: Iteration,
    step_id: str,
    title: str,
    intent: str,
    kind: StepType,
    judged: Verification = UNVERIFIED,
    after: tuple[str, ...] = (),
) -> PlannedStep:
    tools = judged.tools
    mode = MODE_OF_TYPE[kind]
    return PlannedStep(
        step_id=step_id,
        title=title,
        intent=intent,
        verify=render(tools),
        controller_task_spec=ControllerTaskSpec(type=kind),
        mode=mode,
        success_criteria=fit("; ".join(_criteria(iteration, tools)), MAX_CRITERIA),
        depends_on=after,
        guidance=iteration.state.guidance,
        verify_tools=tools,
        queue=iteration.project.goal.queue,
        estimate=estimate(mode),
        quick_checks=judged.added,
    )


def _criteria(iteration: Iteration, tools: Sequence[VerifyTool]) -> Iterator[str]:
    """Yield the criteria for a step; a criterion that a tool judges only counts if `tools` include this tool."""
    catalogue = iteration.project.catalogue
    tests = any(catalogue.contracts[tool.tool].category is ToolCategory.TEST for tool in tools)
    for line in iteration.plan.acceptance_criteria:
        judge = judge_of(line)
        runs = judge and any(is_run_by(tool.tool, tool.argv, catalogue, judge) for tool in tools)
        if judge is None or runs or (tests and runs_tests(judge)):
            yield line


def _about(iteration: Iteration, text: str) -> str:
    return fit(f"[{iteration.plan.iteration_id}] {text}", MAX_INTENT - 150)
