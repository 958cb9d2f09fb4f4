"""The repair step that changes code again after a verification failed because of earlier changes of the plan.

A step of mode `test` patches nothing, so running it again does not help. Its findings go to a PATCH step that may only
touch files that the steps before it patched. It has their risk, and needs their approvals. A step that patches gets
such a repair, too, if it failed in files that only earlier steps could change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from schemas.base import MODE_OF_TYPE, Mode, RiskLevel, StepType
from schemas.base import FailureCategory as C
from schemas.base import StepState as S
from schemas.goal import Goal
from schemas.step import (
    MAX_ANSWERS_FROM,
    MAX_FOCUS,
    MAX_LITERAL,
    ControllerTaskSpec,
    Place,
    PlannedStep,
    StepEstimate,
    VerifyTool,
)
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.blame import files_to_blame, tests_of_others
from tasks.policy.halt_rules import timeouts_of
from tasks.policy.narrowing import Evidence, names_file
from tasks.policy.pipeline import JUDGES, LIMITS, REVISE, Feature, Judgement, always
from tasks.policy.plan_seed import PlanSeed
from tasks.policy.pre_steps import MEND, name_of
from tasks.policy.quick_checks import checks_of_files
from tasks.policy.revision import Revision, faults_of, has_room
from tasks.policy.run_again import AGAIN, MENDS, all_red, runs_again
from tasks.policy.sources import Source, sources_of
from tasks.rules.permission import is_permitted
from tasks.rules.risk import RISK, ROLLBACK, assess, is_below
from tasks.rules.strategy import Draft
from tasks.text.paths import clean
from tasks.toolchain.catalogue import Catalogue, catalogue_of, looks_at
from tasks.toolchain.command_lines import render
from tasks.toolchain.files import Role, files_of, role_of, stem_of, subject_of

MENDED = frozenset(
    {C.TEST_REGRESSION, C.COMPILATION_ERROR, C.TYPE_ERROR, C.LINT_ERROR, C.IMPORT_ERROR, C.TESTS_DIVERGE}
)
MAX_TOOLS = 20
RETRIES = 2
NAMED = "The failure names it."
BEFORE = "It failed with the change of {} on top, which is discarded: mend these files for themselves."

_WITHOUT_FOLDER = ".go"  # tools name such files by their base name in any package
_WORD = re.compile(r"[\w./-]+")
_MODULE = re.compile(r"\b(?:from|import|named) ['\"]?(\w[\w.]{1,200}\w)")  # Python's words for a failed import


def limits_of(_: PlanSeed, goal: Goal, __: Draft) -> Mapping[str, int]:
    """Switch the feature off for a plan whose goal sets `mend` to false."""
    return {} if goal.mend else {MENDS: 0}


def judge(unit: UnitOfWork, seen: Judgement) -> bool:
    """Run a verification again if its failing tests may be flaky: an agent would have nothing to repair."""
    step = seen.step
    if seen.failure is None or seen.handed_back:
        return False
    if not runs_again(unit, step, seen.failure, all_red(unit, seen.outcome), seen.attempt.at):
        return False
    unit.move_step(step, S.ACTIVE.value, "retried", AGAIN)
    unit.make_ready(step)
    return True


def _may_mend(unit: UnitOfWork, step: Step, category: str) -> bool:
    """Return whether a failure of this category gets a repair step, and the plan may have another step."""
    plan, facts = unit.plan, step.facts
    if plan.head.limits.get(MENDS) == 0:
        return False
    if facts["mode"] == Mode.READ_ONLY or facts["inserted_by"] or not has_room(plan):
        return False
    hangs = facts["mode"] == Mode.TEST and category == C.TEST_TIMEOUT and timeouts_of(plan, step) > 1
    return category in MENDED or hangs


def revise(unit: UnitOfWork, step: Step, was: PlannedStep, evidence: Evidence) -> Revision | None:
    """Insert a repair step before the next attempt; None if no such step is possible."""
    if not _may_mend(unit, step, evidence.category):
        return None
    catalogue = catalogue_of(unit.plan.head.tools)
    patches = was.mode is Mode.PATCH
    mend = _mend_before(unit, step, was, evidence, catalogue) if patches else _make_mend(unit, was, evidence, catalogue)
    if mend is None or faults_of(mend, mend, catalogue):
        return None
    return Revision(was.model_copy(update={"depends_on": (*was.depends_on, mend.step_id)}), mend, (MEND,))


def _make_mend(unit: UnitOfWork, step: PlannedStep, evidence: Evidence, catalogue: Catalogue) -> PlannedStep | None:
    """Return the step that repairs the findings of `step`; None if no file patched before it may still be patched.

    Files that the evidence names come first. Raises NeedsSteps if the snapshot lacks earlier steps.
    """

    tests, tightened = evidence.tests, unit.plan.head.tightened
    sources = list(sources_of(unit, step))
    trace = (unit.snapshot.steps[step.step_id].status.previous or {}).get("trace") or ""
    modules = {f"/{name.replace('.', '/')}" for name in _MODULE.findall(trace)}

    def is_named(path: str) -> bool:
        module = "/" + path.rpartition(".")[0].removesuffix("/__init__")
        return any(names_file(path, each) for each in evidence.files) or any(map(module.endswith, modules))

    blamed = files_of(_WORD.findall(trace), Role.TEST)  # from the trace: a test that hangs is in no list
    subjects = frozenset(subject_of(test.partition("::")[0]) for test in (*tests, *blamed))
    found = _files(sources, tightened, is_named, subjects)
    if found is None:
        return None
    files, risk = found
    files = (*files, *_named_beside(sources, tightened, evidence.files, risk, files))
    named = [path for path in files if is_named(path)]
    mend = _mend_of(unit, step, files, risk, [source.facts for source in sources if source.near], named)
    if not tests:  # they could not be loaded, or they hang
        beside = (path for path in (*evidence.files, *blamed) if "/" in path and not path.startswith(("/", "..")))
        own = (path for path in files if is_named(path))
        tests = tuple(dict.fromkeys(files_of((*own, *beside), Role.TEST)))
    return _verified_by(mend, _verification(mend, step, tests, catalogue) or step.verify_tools)


def _mend_before(
    unit: UnitOfWork, step: Step, was: PlannedStep, evidence: Evidence, catalogue: Catalogue
) -> PlannedStep | None:
    """Return the step that repairs files that a patching step may not change; None without evidence for such files.

    The change of the patching step is discarded, so its own tests do not verify the repair. Raises NeedsSteps if the
    snapshot lacks earlier steps.
    """
    if not (evidence.files or evidence.tests):
        return None  # without evidence no steps need to be read
    tightened = unit.plan.head.tightened
    sources = list(sources_of(unit, was))
    blamed = files_to_blame(step, evidence, sources, tightened)
    owners = [source for source in sources if not set(blamed).isdisjoint(source.files(tightened))]
    if not owners:
        return None
    risk = max((source.risk for source in owners), key=tuple(RISK).index)
    blamed = blamed[: RISK[risk].max_files]
    mend = _mend_of(unit, was, blamed, risk, [source.facts for source in owners], blamed)
    mend = mend.model_copy(update={"guidance": BEFORE.format(was.step_id), "piece_of": was.piece_of})
    tools = _verification(mend, was, tests_of_others(step, evidence.tests), catalogue)
    return _verified_by(mend, tools) if tools else None


def _mend_of(
    unit: UnitOfWork,
    step: PlannedStep,
    files: tuple[str, ...],
    risk: RiskLevel,
    near: Sequence[Mapping[str, Any]],
    named: Sequence[str],
) -> PlannedStep:
    """Return the step that changes `files` again before the next attempt of `step`; the steps `near` patched them.

    Its focus has the `named` files.
    """
    return PlannedStep(
        step_id=name_of(MEND, step.step_id, {*unit.plan.structure.taken, *step.depends_on}),
        title="Fix the findings of a verification",
        intent="Change these files so that the failure in context.previous_failure passes. Change nothing else.",
        allowed_files=files,
        risk_level=risk,
        controller_task_spec=ControllerTaskSpec(type=StepType.PATCH),
        mode=MODE_OF_TYPE[StepType.PATCH],
        success_criteria="What failed passes.",
        rollback_hint=ROLLBACK if RISK[risk].rollback_hint else None,
        retry_limit=RETRIES,
        queue=near[0]["queue"],
        estimate=StepEstimate(
            tokens=max(facts["estimate"]["tokens"] for facts in near),
            patch_cycles=max(facts["estimate"]["patch_cycles"] for facts in near),
        ),
        inserted_by=step.step_id,
        answers_from=tuple(dict.fromkeys(name for facts in near for name in facts["answers_from"]))[:MAX_ANSWERS_FROM],
        focus=tuple(Place(path=path, why=NAMED) for path in named[:MAX_FOCUS]),
        allow_empty=True,  # the failure may be gone, or repaired by another change
    )


def _verified_by(mend: PlannedStep, tools: tuple[VerifyTool, ...]) -> PlannedStep:
    return mend.model_copy(update={"verify_tools": tools, "verify": render(tools)})


def _named_beside(
    sources: Sequence[Source],
    tightened: Collection[str] | None,
    named: Sequence[str],
    risk: RiskLevel,
    files: Sequence[str],
) -> list[str]:
    """Return files that the evidence names and a near step could have changed but did not."""
    is_of_root = any("/" not in path for source in sources for path in source.files(tightened))
    found = dict.fromkeys(
        path
        for path in map(clean, named)
        if ("/" in path or is_of_root or not path.endswith(_WITHOUT_FOLDER))
        and any(source.near and source.changed is not None and is_permitted(source.facts, path) for source in sources)
        and path not in files
        and (tightened is None or path in tightened)
        and not is_below(risk, assess((path,)).level)
    )
    return [*found][: max(0, MAX_LITERAL - len(files))]


def _files(
    sources: Sequence[Source],
    tightened: Collection[str] | None,
    is_named: Callable[[str], bool],
    subjects: Collection[str],
) -> tuple[tuple[str, ...], RiskLevel] | None:
    """Choose the files that a repair may touch, and its risk: the highest of the nearest steps that patched.

    Returns None if the nearest steps left no file. Files of earlier steps come later, and only if they do not raise the
    risk. The repair may change all of them, but no more at once than its risk allows. If there are too many to name,
    files that failing tests are named after (`subjects`) are chosen first.
    """
    levels = [source.risk for source in sources if source.near and source.files(tightened)]
    if not levels:
        return None
    risk = max(levels, key=tuple(RISK).index)
    ranks: dict[str, tuple[bool, bool, bool]] = {}
    for source in sources:
        if not is_below(risk, source.risk):
            for path in source.files(tightened):
                ranks.setdefault(path, (not is_named(path), role_of(path) is Role.TEST, not source.near))
    wanted = sorted(ranks, key=lambda path: (ranks[path][0] and stem_of(path) not in subjects, *ranks[path]))
    chosen = frozenset(wanted[:MAX_LITERAL])
    return tuple(path for path in sorted(ranks, key=ranks.__getitem__) if path in chosen), risk


def _verification(
    mend: PlannedStep, step: PlannedStep, tests: Sequence[str], catalogue: Catalogue
) -> tuple[VerifyTool, ...]:
    """Return the quick checks of the repair's files, and the failed tests that the plan's tools can run."""
    known = tuple(tool for tool in step.verify_tools if tool.tool in catalogue.contracts)
    quick = checks_of_files(mend, known, catalogue)
    focused = (_on_test(tool, test, catalogue) for test in tests for tool in known)
    found = dict.fromkeys(tool for tool in (*quick, *focused) if tool)
    permitted = [tool for tool in found if not is_below(mend.risk_level, catalogue.contracts[tool.tool].min_risk)]
    return tuple(permitted[:MAX_TOOLS])


def _on_test(tool: VerifyTool, test: str, catalogue: Catalogue) -> VerifyTool | None:
    """Aim a tool at a failed test; return the tool itself if it runs nothing else, and None if neither is possible."""
    return catalogue.focus(tool, (test,)) or (tool if looks_at(tool, test) else None)


FEATURE = Feature("mending", (LIMITS.row(limits_of), JUDGES.row(judge), REVISE.row(revise)), is_idle=always)
