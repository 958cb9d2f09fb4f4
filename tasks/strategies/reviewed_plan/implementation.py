"""Makes the steps that execute a plan: code, wave by wave, then documents.

All files are within the allowlist, and the steps are split by risk. Milestones of a wave run at the same time. If two
of them share a file, the milestone with the later number waits for the earlier one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from schemas.base import MODE_OF_TYPE, Mode, RiskLevel, StepState, StepType
from schemas.kinds.reviewed_plan import StepEnd
from schemas.kinds.reviewed_plan_files import Milestone, Plan, QrItem, QrPhase
from schemas.step import ControllerTaskSpec, PlannedStep, VerifyTool
from tasks.rules.risk import RISK, assess_declared, estimate
from tasks.strategies.drafting.pieces import TEMPLATE_PHASES, join_pieces, split
from tasks.strategies.drafting.project import Check, Project, keep_permitted, only_documents
from tasks.strategies.reviewed_plan.milestones import RoleName, files_of, is_external, waves_of, worker_of
from tasks.strategies.reviewed_plan.state import Turn, project_in
from tasks.strategies.reviewed_plan.steps import AGAIN, Brief, failed_items, guidance_for, patch_step, suffix
from tasks.text.fields import fit
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.command_lines import render
from tasks.toolchain.files import Role, role_of

CODE_LEVEL = RiskLevel.MED  # of a step that changes code, at least
MAX_HINT = 1000  # characters
_SCOPE = re.compile(r"(?:file:)?(?P<path>.+?)(?::[L\d][\dL,:-]*)?")


@dataclass(frozen=True)
class WorkRound:
    """One round of work before a review: its project and plan, and the items that failed in the last review."""

    brief: Brief
    project: Project
    plan: Plan
    iteration: int = 1  # of its gate
    failed: tuple[QrItem, ...] = ()

    @cached_property
    def touched(self) -> frozenset[str] | None:
        """The files that the failed items are about; None if an item is about everything or there is none."""
        paths = [path_of(item) for item in self.failed]
        known = {path for milestone in self.plan.milestones for path in files_of(milestone)}
        return None if not paths or not known.issuperset(paths) else frozenset(paths)

    def concerns(self, files: Iterable[str]) -> bool:
        """Return whether this round has to work on any of `files`; the first round works on all."""
        return self.iteration == 1 or self.touched is None or not self.touched.isdisjoint(files)


@dataclass(frozen=True, slots=True)
class WorkPiece:
    """The files of one step, their risk level, and its phase if the level has two."""

    files: tuple[str, ...]
    level: RiskLevel = RiskLevel.LOW
    is_only: bool = False
    phase: str | None = None  # where the level asks for two


def path_of(item: QrItem) -> str:
    """Return the path in an item's scope, `file:path:lines`; `*` if the item is about everything."""
    found = _SCOPE.fullmatch(item.scope.strip())
    return found["path"] if found else "*"


def wave_steps(work: WorkRound, number: int) -> tuple[PlannedStep, ...] | None:
    """Return the steps of the wave `number`, from 0, with its test last; None after the last wave."""
    waves = waves_of(work.plan)
    if number >= len(waves):
        return None
    steps: list[PlannedStep] = []
    last_of: dict[str, str] = {}  # the step that a file's next user waits for
    ends: list[str] = []
    for milestone in waves[number]:
        files = files_of(milestone)
        if is_external(milestone) or not work.concerns(files):
            continue
        waits = tuple(dict.fromkeys(last_of[path] for path in files if path in last_of))
        steps += _milestone_steps(work, milestone, files, waits)
        ends.append(steps[-1].step_id)
        last_of |= dict.fromkeys(files, ends[-1])
    tools = work.project.check(Check.TESTS, ())
    if tools and any(step.verify_tools for step in steps):
        mode = MODE_OF_TYPE[StepType.TEST]
        test = PlannedStep(
            step_id=f"test-wave-{number + 1}{suffix(work.iteration)}",
            title=f"Test wave {number + 1}",
            intent=f"Run the tests after all milestones of wave {number + 1}.",
            verify=render(tools),
            risk_level=level_for(tools, work.project.catalogue),
            controller_task_spec=ControllerTaskSpec(type=StepType.TEST),
            mode=mode,
            success_criteria="Every test passes, without a warning.",
            depends_on=tuple(ends),
            phase=work.brief.name,
            verify_tools=tools,
            queue=RoleName.DEVELOPER.value,
            estimate=estimate(mode),
        )
        steps.append(test)
    return tuple(steps)


def least_level(files: tuple[str, ...]) -> RiskLevel:
    """Return the lowest risk of a change of these files."""
    return RiskLevel.LOW if only_documents(files) else CODE_LEVEL


def split_files(files: Sequence[str], least: RiskLevel) -> tuple[WorkPiece, ...]:
    """Return the parts of the files, each within the number that its risk allows, riskier files first."""
    found = split(files, lambda path: assess_declared(least, (path,)).level)
    return tuple(WorkPiece(each.files, each.level, len(found) == 1, each.phase) for each in found)


def checks_of(project: Project, piece: WorkPiece) -> tuple[VerifyTool, ...]:
    """Return the tools that verify one part of a milestone by its own files; none for documents.

    If its risk does not allow these tools, all tests verify the part; `draft` makes sure that the risk allows the
    tests. The test of the wave runs all tests, too.
    """
    if only_documents(piece.files):
        return ()
    wanted = project.own_checks(piece.files, whole=piece.is_only)
    some = keep_permitted(wanted, project.catalogue, piece.level)
    return some or keep_permitted(project.tests, project.catalogue, piece.level)


def level_for(tools: Sequence[VerifyTool], catalogue: Catalogue) -> RiskLevel:
    """Return the lowest risk level of a step that may run all these tools."""
    return max(
        (catalogue.contracts[tool.tool].min_risk for tool in tools), key=tuple(RISK).index, default=RiskLevel.LOW
    )


def _milestone_steps(
    work: WorkRound, milestone: Milestone, files: tuple[str, ...], waits: tuple[str, ...]
) -> list[PlannedStep]:
    parts = split_files(files, least_level(files))
    steps: list[PlannedStep] = []
    for number, piece in enumerate(parts, 1):
        place = f"-{number}" if len(parts) > 1 else ""
        shown = f" ({number} of {len(parts)})" if place else ""
        intents = [f"{each.id} {each.behavior}" for each in milestone.code_intents if each.file in piece.files]
        tasks = intents or milestone.requirements or [milestone.name]
        failed = tuple(item for item in work.failed if path_of(item) in (*piece.files, "*") or work.touched is None)
        guidance = guidance_for(work.brief, failed, work.project.goal.constraints)
        step = patch_step(
            work.brief,
            f"impl-{milestone.id.lower()}{place}{suffix(work.iteration)}",
            piece.files,
            title=f"{milestone.id} {milestone.name[: 80 - len(shown)]}{shown}",
            intent=f"Carry out {milestone.id}: {'; '.join(tasks)}",
            success="; ".join(milestone.acceptance_criteria) or "The code carries out its intents.",
            role=worker_of(milestone),
            level=least_level(piece.files),
            tools=checks_of(work.project, piece),
            guidance=f"{TEMPLATE_PHASES[piece.phase]} {guidance}" if piece.phase else guidance,
            depends_on=(steps[-1].step_id,) if steps else waits,
            phase=piece.phase,
        )
        steps.append(step)
    return join_pieces(steps)


def steps_again(
    wave: Sequence[PlannedStep], ended: Sequence[StepEnd], tries: int, hint: str, most: int
) -> tuple[PlannedStep, ...]:
    """Return new attempts at the failed steps of a wave, with new ids.

    Running only a failed test again changes nothing. So if only the test failed, the last `most` steps of the wave come
    again. Their controllers get the failure and may change the files at fault.
    """
    undone = {AGAIN.sub("", end.step_id) for end in ended if end.state != StepState.DONE}
    steps = [step for step in wave if step.step_id in undone]
    if not any(step.mode is Mode.PATCH for step in steps):
        red = "; ".join(f"{end.step_id} {end.why or end.state}" for end in ended if end.state != StepState.DONE)
        hint = fit(f"{hint} The work was done, and its test did not pass: {red}".strip(), MAX_HINT)
        steps = [
            step.model_copy(update={"allow_empty": step.mode is Mode.PATCH, "piece_of": None}) for step in wave[-most:]
        ]
    names = {step.step_id for step in steps}
    return tuple(
        step.model_copy(
            update={
                "step_id": f"{step.step_id}-t{tries}",
                "depends_on": tuple(f"{name}-t{tries}" for name in step.depends_on if name in names),
                "controller_task_spec": step.controller_task_spec.model_copy(update={"hint": hint or None}),
            }
        )
        for step in steps
    )


def round_of(turn: Turn, brief: Brief, phase: QrPhase) -> WorkRound:
    """Return the work before the next review of `phase`, with the items that failed in the last review."""
    failed = failed_items(turn.document.qr.get(phase))
    return WorkRound(brief, project_in(turn), turn.plan, turn.loop(phase).iteration, failed)


def document_steps(work: WorkRound, number: int) -> tuple[PlannedStep, ...] | None:
    """Return the steps that document the work, in its first wave; None for later waves.

    After the first round they also change the files of failed items.
    """
    if number:
        return None
    own = {path for each in work.plan.milestones if not is_external(each) for path in files_of(each)}
    failed = [path for path in map(path_of, work.failed) if path in own]
    files = tuple(dict.fromkeys((*documents_near(own, work.project.files), *failed)))
    parts = split_files(files, least_level(files))
    guidance = guidance_for(work.brief, work.failed, work.project.goal.constraints)
    steps: list[PlannedStep] = []
    for count, piece in enumerate(parts, 1):
        place = f"-{count}" if len(parts) > 1 else ""
        step = patch_step(
            work.brief,
            f"{work.brief.name}{place}{suffix(work.iteration)}",
            piece.files,
            title=f"{work.brief.title}{f' ({count} of {len(parts)})' if place else ''}",
            intent=f"Document the work for: {work.plan.overview.problem or work.project.goal.goal}",
            success="; ".join(work.brief.checklist),
            role=RoleName.WRITER,
            level=least_level(piece.files),
            tools=checks_of(work.project, piece),
            guidance=guidance,
            depends_on=(steps[-1].step_id,) if steps and piece.phase else (),
            phase=piece.phase,
        )
        steps.append(step.model_copy(update={"allow_empty": True}))  # the change may need no documentation
    return tuple(steps)


def documents_near(files: Iterable[str], allowed: Iterable[str]) -> tuple[str, ...]:
    """Return the allowed documents next to or above one of `files`."""
    folders = set()
    for path in files:
        while path:
            path = path.rpartition("/")[0]
            folders.add(path)
    return tuple(path for path in allowed if role_of(path) is Role.DOCUMENT and path.rpartition("/")[0] in folders)
