"""Checks the invariants of plan.json: references, complete phases, well-formed diffs.

Line numbers in diffs are not checked, because a plan is made before the code has changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise

from schemas import codec
from schemas.kinds.reviewed_plan_files import MAX_PLAN_BYTES, Comment, Milestone, Named, Placed, Plan, QrPhase
from tasks.strategies.reviewed_plan.milestones import files_of, is_external, wave_faults
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import fault
from tasks.toolchain.files import Role, role_of

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@(?: .*)?")
_PREAMBLE = re.compile(
    r"diff --git .*|index [0-9a-f]+\.\.[0-9a-f]+.*|(?:new|deleted) file mode \d+|(?:old|new) mode \d+"
    r"|similarity index .*"
)
_NO_NEWLINE = "\\ No newline at end of file"
_COUNTED = {" ": (1, 1), "": (1, 1), "-": (1, 0), "+": (0, 1)}  # old and new lines; an empty line lost its blank
_NOWHERE = "/dev/null"


def faults(plan: Plan, allowed: Collection[str] | None) -> Iterator[str]:
    """Yield all faults of a plan, each with its kind in front; if `allowed` is None, every clean path is valid."""
    yield from _repeated_ids(plan)
    yield from _decision_refs(plan)
    yield from wave_faults(plan)
    for milestone in plan.milestones:
        yield from _of_milestone(milestone)
        yield from _files(milestone, allowed)


def size_faults(plan: Plan) -> Iterator[str]:
    """Yield a fault if plan.json is too large for a goal that brings this plan for execution.

    Such a goal repeats the files of the plan, so their list counts. Data that freezing adds does not count, so freezing
    never makes a plan too large.
    """
    order = plan.milestone_dependencies.model_copy(update={"waves": (), "version": 1})
    written = plan.model_copy(update={"frozen_at": None, "milestone_dependencies": order})
    files = sorted({path for milestone in plan.milestones for path in files_of(milestone)})
    if (size := len(codec.encode(written)) + len(codec.dumps(files))) > MAX_PLAN_BYTES:
        yield f"too_large: plan.json and the list of its files have {size} bytes and may have {MAX_PLAN_BYTES}"


def _repeated_ids(plan: Plan) -> Iterator[str]:
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
    context = plan.planning_context
    refs: list[tuple[str, str | None]] = [(each.id, each.decision_ref) for each in context.rejected_alternatives]
    refs += [(each.id, each.decision_ref) for each in context.known_risks]
    for milestone in plan.milestones:
        refs += [(intent.id, ref) for intent in milestone.code_intents for ref in intent.decision_refs]
        written = milestone.documentation
        comments: tuple[Comment, ...] = (*written.algorithm_blocks, *written.inline_comments)
        refs += [(f"the documentation of {milestone.id}", comment.decision_ref) for comment in comments]
    known = {each.id for each in context.decision_log}
    for owner, ref in refs:
        if ref is not None and ref not in known:
            yield f"dangling: {owner} refers to the decision {ref}, which is not there"


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
    """Yield an error for each file of a milestone that may not change; none if someone else executes the milestone."""
    if is_external(milestone):
        return
    for path in files_of(milestone):
        if found := fault(path, JUDGED):
            yield f"outside_allowlist: {path[:100]!r} of {milestone.id}: {found.message}"
        elif allowed is not None and path not in allowed:
            yield f"outside_allowlist: {path[:100]!r} of {milestone.id} is not among the goal's allowed_files"


def gaps(plan: Plan, phase: QrPhase) -> Iterator[str]:
    """Yield the parts of the plan that are missing after the work of `phase`."""
    return CHECKS[phase](plan)


def is_coded(milestone: Milestone) -> bool:
    """Return whether the steps of this plan write code for a milestone."""
    return not milestone.is_documentation_only and not is_external(milestone)


def _design(plan: Plan) -> Iterator[str]:
    if not plan.overview.problem.strip():
        yield "incomplete: the overview does not name the problem"
    if not plan.milestones:
        yield "incomplete: there is no milestone"
    for milestone in filter(is_coded, plan.milestones):
        if not milestone.code_intents:
            yield f"incomplete: {milestone.id} has no code intent"


def _code(plan: Plan) -> Iterator[str]:
    for milestone in filter(is_coded, plan.milestones):
        changed = {each.intent_ref for each in milestone.code_changes}
        for intent in milestone.code_intents:
            if intent.id not in changed:
                yield f"incomplete: {intent.id} has no code change"


def _docs(plan: Plan) -> Iterator[str]:
    for milestone in filter(is_coded, plan.milestones):
        if milestone.code_changes and milestone.documentation.is_empty:
            yield f"incomplete: {milestone.id} has no documentation"


# One row for each phase, in the order of the workflow.
CHECKS: Mapping[QrPhase, Callable[[Plan], Iterator[str]]] = {
    QrPhase.PLAN_DESIGN: _design,
    QrPhase.PLAN_CODE: _code,
    QrPhase.PLAN_DOCS: _docs,
}


def diff_fault(diff: str, path: str) -> str | None:
    """Return the fault in a diff that should change `path` and nothing else; None if there is none."""
    lines = diff.rstrip("\n").split("\n")
    start = next((number for number, line in enumerate(lines) if line.startswith("--- ")), None)
    if start is None or not all(_PREAMBLE.fullmatch(line) for line in lines[:start]):
        return "it does not begin with `--- ` and `+++ ` headers"
    if start + 1 >= len(lines) or not lines[start + 1].startswith("+++ "):
        return "there is no `+++ ` header after `--- `"
    old, new = (header[4:].split("\t")[0].strip() for header in lines[start : start + 2])
    if old == new == _NOWHERE:
        return "both of its headers are /dev/null"
    for name in (old.removeprefix("a/"), new.removeprefix("b/")):
        if name not in (path, _NOWHERE):
            return f"its headers name {name[:100]!r} and not {path!r}"
    return _hunks_fault(lines[start + 2 :])


def _hunks_fault(lines: Sequence[str]) -> str | None:
    heads = [number for number, line in enumerate(lines) if line.startswith("@@")]
    if not heads or heads[0] != 0:
        return "its headers are not followed by a hunk `@@ -l,n +l,n @@`"
    for count, (start, end) in enumerate(pairwise((*heads, len(lines))), 1):
        if found := _hunk_fault(lines[start], lines[start + 1 : end]):
            return f"hunk {count} {found}"
    return None


def _hunk_fault(head: str, body: Sequence[str]) -> str | None:
    found = _HUNK.fullmatch(head)
    if found is None:
        return "does not begin with `@@ -l,n +l,n @@`"
    said = tuple(1 if count is None else int(count) for count in found.groups())
    lines = [line for line in body if line != _NO_NEWLINE]
    if any(line[:1] not in _COUNTED for line in lines):
        return "has a line that begins with neither ` `, `+` nor `-`"
    counts = [_COUNTED[line[:1]] for line in lines]
    real = (sum(old for old, _ in counts), sum(new for _, new in counts))
    if real != said:
        return f"claims {said[0]} old and {said[1]} new lines and has {real[0]} and {real[1]}"
    return None if any(old != new for old, new in counts) else "changes nothing"
