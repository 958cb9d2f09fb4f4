"""Splits a step, once, if its attempt changed more files than the step may change.

This is no failure. Each part is a step that names its files and no others. If the controller reports changed lines, no
part has more than the limit. Files that import each other stay together, then files of one folder. Documents come
before sources, and tests last. The last part has the step's own verification, and the others have quick checks of their
files. A controller that kept a change with a passed verification splits that change itself, and runs no agent.

A type checker or compiler of the whole project may find faults in files of other parts. If it names only such files, it
passes for every part but the last. Later steps then judge the whole change.

Operators may also switch on a split of changes that do not compile. A new step then changes the files that the failure
names. It also gets the other changed files, unless that would be all files of the step. The first step keeps its files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import Any

from schemas.base import FailureCategory as C
from schemas.base import Mode, RiskLevel
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.imports import Imports, connected, imports_of, keep_imports
from tasks.policy.narrowing import Evidence, names_file
from tasks.policy.outcome_verdict import fit_evidence
from tasks.policy.pipeline import AT_BIRTH, JUDGES, LIMITS, REVISE, Feature, Judgement, always, limited, switched
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import PIECE, name_of
from tasks.policy.quick_checks import checks_of_files
from tasks.policy.revision import Revision, carry_out
from tasks.rules.permission import PATTERNS, exceeds, is_permitted
from tasks.rules.risk import RISK, is_below
from tasks.rules.strategy import Draft
from tasks.text.fields import MAX_TITLE
from tasks.toolchain.catalogue import Catalogue, catalogue_of, looks_at
from tasks.toolchain.command_lines import render
from tasks.toolchain.contract import ToolCategory
from tasks.toolchain.files import Role, files_of

SPLIT = "split"  # the rule of the revision
WHOLE = "whole_compilation"  # among limits, 0: a change that does not compile is split
OF_WHOLE = frozenset({C.COMPILATION_ERROR, C.TYPE_ERROR, C.IMPORT_ERROR})
LOOK_AT_ALL = frozenset({ToolCategory.BUILD, ToolCategory.TYPE_CHECK})
NOTHING: Mapping[str, Any] = MappingProxyType({})
ROLES = ((Role.DOCUMENT,), (Role.MANIFEST, Role.SOURCE), (Role.TEST,))


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Split a step whose change has too many files; else its failure counts, with the reason."""
    step, failure = seen.step, seen.failure
    if failure is None or step.facts["mode"] != Mode.PATCH:
        return False
    was = PlannedStep.model_validate(step.facts)
    lines, most_lines = seen.outcome.changed_lines or {}, unit.snapshot.policy.attempts[was.risk_level].max_diff_lines
    parts = cut(_changed(seen), RISK[was.risk_level].max_files, imports_of(unit), lines, most_lines)
    longest = max(lines, key=lines.__getitem__, default="")
    if why := _obstacle(unit, was, parts) or _excess(longest, lines.get(longest, 0), most_lines):
        told = f"{failure['suggestion'] or 'too many files were changed'}; {why}"
        seen.failure = {**failure, "suggestion": fit_evidence(told)}
        return False
    found = split(was, parts, unit.plan.structure.taken, catalogue_of(unit.plan.head.tools))
    unit.inputs.append([SPLIT, step.step_id, step.status.attempt, len(parts)])
    unit.move_step(step, S.ACTIVE.value)
    step.status.previous = None  # the last part is a first attempt like the others
    carry_out(unit, step, found, failure["category"])
    return True


def _changed(seen: Judgement) -> list[str]:
    """Return the files of the change; empty unless all are known, and the step may change each of them."""
    outcome, facts = seen.outcome, seen.step.facts
    told = outcome.failure_evidence.affected_files if outcome.failure_evidence else ()
    files = sorted({*outcome.touched_files, *outcome.created_files} or {*outcome.discarded_files, *told})
    whole = len(files) >= (outcome.touched_count or 0)
    fitting = all(is_permitted(facts, path) and not exceeds(facts, path) for path in files)
    return files if whole and fitting else []


def _obstacle(unit: UnitOfWork, step: PlannedStep, parts: Sequence[Sequence[str]]) -> str:
    """Return why a step is not split; empty if it is."""
    if step.piece_of or step.inserted_by:
        return "a part of a change is not split again"
    if len(parts) < 2:
        return "which ones is not known, so that the step cannot be split"
    most, total = unit.plan.limits["max_steps"], sum(unit.plan.counts.values()) + len(parts) - 1
    if most is not None and total > most:
        return f"with its parts the plan would have {total} steps and may have {most}; raise limits.max_steps"
    return ""


def _excess(path: str, lines: int, most: int) -> str:
    """Return why a file has too many changed lines for any part; empty if it fits into a part."""
    return f"{path} alone has {lines} changed lines, allowed are {most}: make a smaller change" if lines > most else ""


def cut(
    files: Sequence[str],
    size: int,
    imports: Imports = NOTHING,
    lines: Mapping[str, int] = NOTHING,
    most_lines: int = 0,
) -> list[tuple[str, ...]]:
    """Split files into parts of at most `size` files, and at most `most_lines` changed lines if `lines` has them.

    Files that import each other stay together if they fit, then files of one folder.
    """

    def fits(part: tuple[str, ...]) -> bool:
        return len(part) <= size and (len(part) == 1 or sum(lines.get(path, 0) for path in part) <= most_lines)

    parts: list[tuple[str, ...]] = []
    for roles in ROLES:
        part: tuple[str, ...] = ()
        for group in _groups(files_of(files, *roles), imports):
            for some in _fitting(group, fits):
                if part and not fits(part + some):
                    parts.append(part)
                    part = ()
                part += some
        parts += [part] if part else []
    return parts


def _fitting(files: Sequence[str], fits: Callable[[tuple[str, ...]], bool]) -> Iterator[tuple[str, ...]]:
    """Yield parts of files in order, each as large as `fits` allows."""
    part: tuple[str, ...] = ()
    for path in files:
        if part and not fits((*part, path)):
            yield part
            part = ()
        part = (*part, path)
    if part:
        yield part


def _groups(files: Sequence[str], imports: Imports) -> list[tuple[str, ...]]:
    together = connected(files, imports)
    found = {path for group in together for path in group}
    return [*together, *_folders([path for path in files if path not in found])]


def _folders(files: Sequence[str]) -> Iterator[tuple[str, ...]]:
    ordered = sorted(files, key=lambda path: (path.rpartition("/")[0], path))
    for _, group in groupby(ordered, key=lambda path: path.rpartition("/")[0]):
        yield tuple(group)


def split(step: PlannedStep, parts: Sequence[tuple[str, ...]], taken: Sequence[str], catalogue: Catalogue) -> Revision:
    """Split a step: it changes the last part, and new steps before it change the others."""
    pieces: list[PlannedStep] = []
    names = [*taken, *step.depends_on]
    for number, files in enumerate(parts[:-1], 1):
        after = (pieces[-1].step_id,) if pieces else ()
        update: dict[str, Any] = {
            "step_id": name_of(PIECE, step.step_id, names),
            "title": f"{step.title[: MAX_TITLE - 20]}: part {number} of {len(parts)}",
            "depends_on": after,
            "inserted_by": step.step_id,
            "allow_empty": True,
            "keeps_answer": False,
            "checks_after": {},
        }
        piece = _named(step, files).model_copy(update=update)
        pieces.append(_quickly_verified(piece, step, catalogue))
        names.append(piece.step_id)
    last = _named(step, parts[-1]).model_copy(update={"depends_on": (*step.depends_on, pieces[-1].step_id)})
    return Revision(last, None, (SPLIT,), tuple(pieces))


def _named(step: PlannedStep, files: tuple[str, ...]) -> PlannedStep:
    """Return a step that may change these files and no others, as one part of a change."""
    short = step.controller_task_spec.model_copy(update={"target_file": files[0]})
    nothing = dict.fromkeys(("allowed_patterns", "excluded_patterns"), ())
    named = {"allowed_files": files, "piece_of": step.step_id, "controller_task_spec": short}
    named["requires"] = tuple(name for name in step.requires if name != PATTERNS)
    named["focus"] = tuple(place for place in step.focus if place.path in files)
    return step.model_copy(update={**nothing, **named})


def _quickly_verified(piece: PlannedStep, step: PlannedStep, catalogue: Catalogue) -> PlannedStep:
    known = tuple(tool for tool in step.verify_tools if tool.tool in catalogue.contracts)
    found = checks_of_files(piece, known, catalogue)
    level = RiskLevel(piece.risk_level)
    tools = tuple(tool for tool in found if not is_below(level, catalogue.contracts[tool.tool].min_risk))
    marked = tuple(name for name in piece.quick_checks if any(tool.tool == name for tool in tools))
    return piece.model_copy(update={"verify_tools": tools, "verify": render(tools), "quick_checks": marked})


def split_broken(unit: UnitOfWork, step: Step, was: PlannedStep, evidence: Evidence) -> Revision | None:
    """Let a new step before `step` change the files that do not compile; None if the step is not split.

    The new step may also change other changed files.
    """
    outcome = unit.answers.get(step.step_id)
    if evidence.category != C.COMPILATION_ERROR or was.mode is not Mode.PATCH or outcome is None:
        return None
    changed = sorted({*outcome.touched_files, *outcome.created_files})
    named = [path for path in changed if any(names_file(path, each) for each in evidence.files)]
    files = list(dict.fromkeys((*was.allowed_files, *changed)))
    first = tuple(dict.fromkeys((*named, *changed)))
    if len(first) == len(files) or len(first) > RISK[was.risk_level].max_files:
        first = tuple(named)
    fitting = all(is_permitted(step.facts, path) and not exceeds(step.facts, path) for path in first)
    if not named or len(changed) < 2 or not fitting or _obstacle(unit, was, (first, tuple(files))):
        return None
    found = split(was, (first, tuple(files)), unit.plan.structure.taken, catalogue_of(unit.plan.head.tools))
    behind = {"depends_on": found.step.depends_on, "piece_of": was.step_id}
    return replace(found, step=was.model_copy(update=behind))


def spare_other_parts(unit: UnitOfWork, step: Step, was: PlannedStep, evidence: Evidence) -> Revision | None:
    """Let a compiler or type checker pass if it names no file of this part, only files of other parts.

    Returns None for the last part, or if the tool names a file of this part.
    """
    outcome, catalogue = unit.answers.get(step.step_id), catalogue_of(unit.plan.head.tools)
    receipts = outcome.verify if outcome else None
    if not (was.allow_empty and receipts and evidence.files):
        return None
    failed, red = next(((at, each) for at, each in enumerate(was.verify_tools) if at == len(receipts) - 1), (0, None))
    contract = catalogue.contracts.get(red.tool) if red else None
    if red is None or contract is None or contract.category not in LOOK_AT_ALL:
        return None
    if any(looks_at(red, path) for path in was.allowed_files) or any(
        names_file(path, named) for path in was.allowed_files for named in evidence.files
    ):
        return None
    tools = (*was.verify_tools[:failed], catalogue.as_ran(red), *was.verify_tools[failed + 1 :])
    return Revision(was.model_copy(update={"verify_tools": tools, "verify": render(tools)}), None, ("spare_parts",))


def keep(unit: UnitOfWork, _: PlanSeed, goal: Goal, draft: Draft) -> None:
    """Store which files import each other."""
    keep_imports(unit, goal, draft)


FEATURE = Feature(
    "split_changes",
    (
        AT_BIRTH.row(keep),
        JUDGES.row(judge, of=(C.TOO_MANY_FILES,)),
        LIMITS.row(switched(WHOLE)),
        REVISE.row(split_broken, only=limited(WHOLE)),
        REVISE.row(spare_other_parts, fact="piece_of", of=OF_WHOLE),
    ),
    is_idle=always,
)
