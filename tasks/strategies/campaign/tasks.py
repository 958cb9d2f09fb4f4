"""LOCATE_TARGETS and SET_BUDGETS: designs the tasks of plan.json, or judges tasks that a goal or drafter supplies.

All faults of supplied tasks are returned at once. Missing values get the same formulas as designed tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.envelope import FieldError
from schemas.kinds.campaign import GivenTask, PlanTask, TaskType
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.campaign.formulas import (
    LEAST_BUDGET,
    MOST_BUDGET,
    budget_of,
    complexity,
    target_lines_of,
    task_count,
)
from tasks.strategies.campaign.parts import sections_named
from tasks.strategies.campaign.question import likely_files
from tasks.strategies.campaign.sequence import (
    depends_on,
    graph_faults,
    is_akin,
    kebab,
    parents,
    sequence,
    with_documents,
)
from tasks.strategies.campaign.state import Knowledge
from tasks.strategies.campaign.verification import (
    UNVERIFIED,
    code_checks,
    goes_unverified,
    read_command,
    read_commands,
)
from tasks.strategies.drafting.project import Project
from tasks.text.fields import fit
from tasks.text.forbidden_paths import JUDGED
from tasks.text.paths import clean, fault
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.files import Role, files_of, role_of

POINTER = "/campaign/tasks"
MAX_MESSAGE = 300  # characters of an error, which may repeat parts of the task
MAX_SOURCE = 200  # characters of a task's own verification
MAX_NAMED = 3  # files of a section that are not candidates
MAX_TESTS = 10  # test files of a campaign

_SEQ = re.compile(r"[0-9]{3}")
_SLUG = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_AGAIN = re.compile(r"-r[0-9]+$")
_LINES = re.compile(r"[0-9]{1,7}-[0-9]{1,7}")

_Faults = Iterator[tuple[str, str, str]]  # pointer within the task, code, sentence


def design_tasks(known: Knowledge, project: Project, campaign: str) -> tuple[PlanTask, ...]:
    """Return tasks that the planner designs from the files to change, their tests and the sections of the objective."""
    meant = _meant_files(known, project)
    sources = tuple(path for path in meant if role_of(path) is not Role.TEST) or meant
    tests, parts = _tests_for(sources, known, project.files), known.parts
    documents: tuple[str, ...] = ()
    count = task_count(complexity(known))
    if goes_unverified(sources):
        tests = ()
    elif count > 2:  # each is verified in its own way
        documents = files_of(sources, Role.DOCUMENT)
        sources = tuple(path for path in sources if path not in documents)
        parts = tuple(part for part in parts if not part.files or not {*part.files} <= {*documents})
    code = count - bool(documents)
    sketches = sequence(code, sources, tests, known.headings, campaign, parts)
    if not all(project.syntax_checks(each.delta) for each in sketches if each.type is TaskType.SPEC):
        # tests that cannot be checked before their code are written with it
        sketches = sequence(code, (*sources, *tests), (), known.headings, campaign, parts)
    if documents:
        sketches = with_documents(sketches, documents, sections_named(documents, known))
    if goes_unverified(sources):
        sketches = tuple(each for each in sketches if each.type is not TaskType.VERIFY)
    verified = any(each.type is TaskType.VERIFY for each in sketches)
    planned: list[PlanTask] = []
    for place, sketch in enumerate(sketches, 1):
        tools, lines = project.tests, None
        if sketch.type is TaskType.SPEC:
            tools = project.syntax_checks(sketch.delta)
        elif sketch.type is TaskType.BUILD:
            tools = code_checks(project, sketch.delta, sketch.tests, verified=verified)
            lines = target_lines_of(sketch.delta, known) or None
        task = PlanTask(
            seq=f"{place:03}",
            slug=kebab(sketch.slug),
            type=sketch.type,
            delta=sketch.delta,
            verify=project.catalogue.as_typed(tools) if tools else UNVERIFIED,
            budget=budget_of(sketch.delta, known),
            depends=depends_on([f"{other + 1:03}" for other in sketch.after]),
            target_lines=lines,
            sections=sketch.sections if parts and sketch.sections else None,
        )
        planned.append(task)
    return tuple(planned)


def _meant_files(known: Knowledge, project: Project) -> tuple[str, ...]:
    """Return the files to change: the likely ones, and the files that sections without a likely file name."""
    likely = likely_files(known)
    if known.narrowed:
        return likely
    left = (part.files for part in known.parts if {*part.files}.isdisjoint(likely))
    more = (path for files in left for path in files[:MAX_NAMED] if path in project.files)
    return tuple(dict.fromkeys((*likely, *more)))


def _tests_for(sources: Sequence[str], known: Knowledge, allowed: Sequence[str]) -> tuple[str, ...]:
    """Return the test files that may be written, MAX_TESTS at most.

    These are the tests that a person or the exploration named, else tests named after the source files. If there are
    none of both, all allowed tests count, unless they are too many.
    """
    if known.untested:
        return ()
    named = dict.fromkeys((*known.tests, *files_of(likely_files(known), Role.TEST)))
    every = files_of(allowed, Role.TEST)
    kin = tuple(test for test in every if any(is_akin(test, source) for source in sources))
    chosen = tuple(named) or kin or (every if len(every) <= MAX_TESTS else ())
    return tuple(path for path in chosen[:MAX_TESTS] if path not in sources)


@dataclass(frozen=True, slots=True)
class _Context:
    """The data that a task is compared with: the allowed files, the numbers of all tasks, and the catalogue."""

    allowed: frozenset[str]
    seqs: Counter[str]
    catalogue: Catalogue


def judge_tasks(
    tasks: Sequence[GivenTask], allowed: Sequence[str], catalogue: Catalogue, root: str = POINTER
) -> tuple[FieldError, ...]:
    """Return the faults in the tasks of a whole plan, with pointers below `root`."""
    if not tasks:
        return (FieldError(pointer=root, code="no_tasks", message="A plan needs at least one task."),)
    return (*judge_each(tasks, allowed, catalogue, root), *_order(tasks, root))


def judge_each(
    tasks: Sequence[GivenTask], allowed: Sequence[str], catalogue: Catalogue, root: str = POINTER
) -> tuple[FieldError, ...]:
    """Return the faults in each task alone; dependencies between tasks are not judged."""
    around = _Context(frozenset(allowed), Counter(task.seq for task in tasks), catalogue)
    return tuple(
        FieldError(pointer=f"{root}/{index}{pointer}", code=code, message=fit(message, MAX_MESSAGE))
        for index, task in enumerate(tasks)
        for check in CHECKS
        for pointer, code, message in check(task, around)
    )


def plan_tasks(tasks: Sequence[GivenTask], known: Knowledge, catalogue: Catalogue) -> tuple[PlanTask, ...]:
    """Return supplied tasks in the form of plan.json, with their missing values filled in."""
    return tuple(_plan_task(task, known, catalogue) for task in tasks)


def _plan_task(task: GivenTask, known: Knowledge, catalogue: Catalogue) -> PlanTask:
    delta = tuple(dict.fromkeys(map(clean, task.delta)))
    lines = {clean(path): each for path, each in task.target_lines.items()}
    found = target_lines_of(delta, known) if task.type is TaskType.BUILD else {}
    return PlanTask(
        seq=task.seq,
        slug=task.slug,
        type=task.type,
        delta=delta,
        verify=UNVERIFIED if task.verify.strip() == UNVERIFIED else catalogue.as_typed(_tools(task, catalogue)),
        budget=budget_of(delta, known) if task.budget is None else int(task.budget),
        depends=depends_on(parents(_waits(task.depends) or ())),
        preflight=task.preflight or None,
        verify_source=fit(task.verify_source or "", MAX_SOURCE) or None,
        target_lines=lines or found or None,
        creates=tuple(dict.fromkeys(map(clean, task.creates))) or None,
        sections=sections_named((*delta, *map(clean, task.creates)), known) or None,
    )


def _tools(task: GivenTask, catalogue: Catalogue) -> tuple[VerifyTool, ...]:
    return read_commands(task.verify, catalogue, tuple(map(clean, (*task.delta, *task.creates))))


def _names(task: GivenTask, around: _Context) -> _Faults:
    if not _SEQ.fullmatch(task.seq):
        yield "/seq", "invalid_seq", "A task's number has three digits, such as 001."
    elif around.seqs[task.seq] > 1:
        yield "/seq", "duplicate_seq", f"More than one task has the number {task.seq}."
    if not _SLUG.fullmatch(task.slug):
        yield "/slug", "invalid_slug", "A slug is kebab-case: lower-case letters and digits, joined by hyphens."
    elif _AGAIN.search(task.slug):
        yield "/slug", "reserved_slug", "A slug cannot end like -r2: so end the steps of tasks that come again."


def _files(task: GivenTask, around: _Context) -> _Faults:
    named: tuple[tuple[str, Sequence[str]], ...] = (("delta", task.delta), ("creates", task.creates))
    for field, paths in named:
        for place, path in enumerate(paths):
            if found := fault(path, JUDGED):
                yield f"/{field}/{place}", found.code, found.message
            elif task.type is not TaskType.VERIFY and clean(path) not in around.allowed:
                yield f"/{field}/{place}", "outside_allowlist", f"{path!r} is not among the goal's allowed_files."
    if task.type is not TaskType.VERIFY and not task.delta and not task.creates:
        yield "/delta", "empty_delta", "A task that changes something must name its files, in delta or creates."


def _commands(task: GivenTask, around: _Context) -> _Faults:
    try:
        if task.verify.strip() == UNVERIFIED and goes_unverified(_changed(task)):
            return
        if not task.verify.strip():
            yield "/verify", "empty_verify", "A task needs a verification."
        elif not _tools(task, around.catalogue):
            yield "/verify", "empty_verify", "This recipe runs nothing for the files of this task."
    except UnknownCommand as error:
        yield "/verify", "unknown_command", str(error)
    for place, command in enumerate(task.preflight):
        try:
            read_command(command, around.catalogue)
        except UnknownCommand as error:
            yield f"/preflight/{place}", "unknown_command", str(error)


def _changed(task: GivenTask) -> tuple[str, ...]:
    return () if task.type is TaskType.VERIFY else tuple(map(clean, (*task.delta, *task.creates)))


def _numbers(task: GivenTask, _: _Context) -> _Faults:
    if task.budget is not None and not (LEAST_BUDGET <= task.budget <= MOST_BUDGET and task.budget == int(task.budget)):
        yield "/budget", "budget_range", f"A budget is {LEAST_BUDGET} to {MOST_BUDGET} tool calls."
    if not all(_LINES.fullmatch(lines) for lines in task.target_lines.values()):
        yield "/target_lines", "invalid_target_lines", "Lines are written as 10-40."
    if set(map(clean, task.target_lines)) - set(map(clean, task.delta)):
        yield "/target_lines", "unknown_target", "Only files of the delta have lines to look at."
    if _waits(task.depends) is None:
        yield "/depends", "depends_type", 'A task depends on "none", on a number or on a list of numbers.'


def _waits(depends: object) -> tuple[str, ...] | None:
    """Return the names in `depends`, a text or a list; None if one of them is no text."""
    names = depends if isinstance(depends, list | tuple) else (depends,)
    texts = tuple(name for name in names if isinstance(name, str))
    return texts if len(texts) == len(names) else None


def _order(tasks: Sequence[GivenTask], root: str) -> Iterator[FieldError]:
    """Yield the faults of the task graph; nothing if two tasks have the same number."""
    waits: Mapping[str, tuple[str, ...]] = {task.seq: parents(_waits(task.depends) or ()) for task in tasks}
    if len(waits) < len(tasks):
        return
    places = {task.seq: place for place, task in enumerate(tasks)}
    for seq, code, message in graph_faults(waits):
        yield FieldError(pointer=f"{root}/{places[seq]}/depends", code=code, message=fit(message, MAX_MESSAGE))


CHECKS: tuple[Callable[[GivenTask, _Context], _Faults], ...] = (_names, _files, _commands, _numbers)
