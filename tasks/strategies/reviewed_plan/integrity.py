"""Reference integrity of plan.json: everything that is named is there, and every file may be touched (seed 002)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from schemas import codec
from schemas.review_plan import MAX_PLAN_BYTES, Comment, Milestone, Named, Placed, Plan
from tasks.strategies.reviewed_plan.diffs import diff_fault
from tasks.strategies.reviewed_plan.roles import is_external
from tasks.strategies.reviewed_plan.waves import wave_faults
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import fault
from tasks.toolchain.files import Role, role_of


def faults(plan: Plan, allowed: Collection[str] | None) -> Iterator[str]:
    """Say everything that is wrong, each with its kind in front; without an allowlist any clean path will do."""
    yield from _doubled(plan)
    yield from _decision_refs(plan)
    yield from wave_faults(plan)
    for milestone in plan.milestones:
        yield from _of_milestone(milestone)
        yield from _files(milestone, allowed)


def too_large(plan: Plan) -> Iterator[str]:
    """Say whether a plan is too large for a goal that executes it, which names its files once more.

    What freezing writes does not count, so that a plan that was not too large never is once it is frozen.
    """
    order = plan.milestone_dependencies.model_copy(update={"waves": (), "version": 1})
    written = plan.model_copy(update={"frozen_at": None, "milestone_dependencies": order})
    files = sorted({path for milestone in plan.milestones for path in files_of(milestone)})
    if (size := len(codec.encode(written)) + len(codec.dumps(files))) > MAX_PLAN_BYTES:
        yield f"too_large: plan.json and the list of its files have {size} bytes and may have {MAX_PLAN_BYTES}"


def files_of(milestone: Milestone) -> tuple[str, ...]:
    """List the files that a milestone may touch, its tests last."""
    return tuple(dict.fromkeys((*milestone.files, *milestone.tests.files)))


def _doubled(plan: Plan) -> Iterator[str]:
    context = plan.planning_context
    entities: tuple[Named, ...] = (
        *context.decision_log,
        *context.rejected_alternatives,
        *context.constraints,
        *context.known_risks,
    )
    ids = Counter(each.id for each in (*entities, *plan.milestones))
    ids.update(each.id for milestone in plan.milestones for each in (*milestone.code_intents, *milestone.code_changes))
    yield from (f"exists: more than one entity is called {name}" for name, times in ids.items() if times > 1)
    numbers = Counter(each.number for each in plan.milestones)
    yield from (f"exists: more than one milestone has the number {n}" for n, times in numbers.items() if times > 1)


def _decision_refs(plan: Plan) -> Iterator[str]:
    known = {each.id for each in plan.planning_context.decision_log}
    for owner, ref in _refs(plan):
        if ref is not None and ref not in known:
            yield f"dangling: {owner} refers to the decision {ref}, which is not there"


def _refs(plan: Plan) -> Iterator[tuple[str, str | None]]:
    yield from ((each.id, each.decision_ref) for each in plan.planning_context.rejected_alternatives)
    yield from ((each.id, each.decision_ref) for each in plan.planning_context.known_risks)
    for milestone in plan.milestones:
        yield from ((intent.id, ref) for intent in milestone.code_intents for ref in intent.decision_refs)
        written = milestone.documentation
        comments: tuple[Comment, ...] = (*written.algorithm_blocks, *written.inline_comments)
        for comment in comments:
            yield f"the documentation of {milestone.id}", comment.decision_ref


def _of_milestone(milestone: Milestone) -> Iterator[str]:
    own, intents = set(files_of(milestone)), {each.id for each in milestone.code_intents}
    placed: tuple[Placed, ...] = (*milestone.code_intents, *milestone.code_changes)
    for entity in placed:
        if entity.file not in own:
            yield f"dangling: {entity.id} is about {entity.file}, which is no file of {milestone.id}"
    for change in milestone.code_changes:
        if change.intent_ref not in intents:
            yield f"dangling: {change.id} refers to {change.intent_ref}, which is no intent of {milestone.id}"
        if wrong := diff_fault(change.diff, change.file):
            yield f"malformed: the diff of {change.id}: {wrong}"
    if milestone.is_documentation_only and not all(role_of(path) is Role.DOCUMENT for path in milestone.files):
        yield f"invalid: {milestone.id} is documentation only and has files that are no documents"
    if milestone.is_documentation_only and milestone.code_intents:
        yield f"invalid: {milestone.id} is documentation only and has code intents"


def _files(milestone: Milestone, allowed: Collection[str] | None) -> Iterator[str]:
    """Judge the files of a milestone that is carried out here."""
    if is_external(milestone):
        return
    for path in files_of(milestone):
        if found := fault(path, JUDGED):
            yield f"outside_allowlist: {path[:100]!r} of {milestone.id}: {found.message}"
        elif allowed is not None and path not in allowed:
            yield f"outside_allowlist: {path[:100]!r} of {milestone.id} is not among the goal's allowed_files"
