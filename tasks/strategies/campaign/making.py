"""LOCATE_TARGETS and SET_BUDGETS: sketches become the tasks of plan.json (seed 003)."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.campaign import LEAST_CONFIDENCE, TaskType
from schemas.campaign_plan import PlanTask
from tasks.strategies.campaign import measures
from tasks.strategies.campaign.coherence import sure
from tasks.strategies.campaign.commands import passing, well_formed
from tasks.strategies.campaign.dag import depends_on
from tasks.strategies.campaign.design import Sketch, akin, sequence
from tasks.strategies.campaign.frameworks import framework
from tasks.strategies.campaign.state import Known
from tasks.strategies.campaign.words import kebab
from tasks.strategies.drafting.project import Project
from tasks.toolchain.files import Role, having, role_of

MAX_TESTS = 10  # test files of a campaign


def score(known: Known) -> float:
    """Say how complex the campaign is."""
    return measures.complexity(known.sections, known.cost_k, framework(known.framework).weight)


def designed(known: Known, project: Project, campaign: str) -> tuple[PlanTask, ...]:
    """Make the tasks of a campaign from its candidates, the tests that it may write, and its sections."""
    meant = sure(known)
    sources = tuple(path for path in meant if role_of(path) is not Role.TEST) or meant
    tests = tests_for(sources, known, project.files)
    count = measures.task_count(score(known))
    sketches = sequence(count, sources, tests, known.headings, campaign)
    if not all(well_formed(project, each.delta) for each in sketches if each.type is TaskType.SPEC):
        # tests that cannot be checked before their code are written with it
        sketches = sequence(count, (*sources, *tests), (), known.headings, campaign)
    verified = any(each.type is TaskType.VERIFY for each in sketches)
    return tuple(_task(place, sketch, known, project, verified=verified) for place, sketch in enumerate(sketches))


def tests_for(sources: Sequence[str], known: Known, allowed: Sequence[str]) -> tuple[str, ...]:
    """Choose the test files that may be written: those that were named, else those named after the source files.

    Where none is, all of the allowed ones stand in, unless they are too many to guess.
    """
    if known.untested:
        return ()
    named = dict.fromkeys((*known.tests, *having(sure(known), Role.TEST)))
    every = having(allowed, Role.TEST)
    kin = tuple(test for test in every if any(akin(test, source) for source in sources))
    chosen = tuple(named) or kin or (every if len(every) <= MAX_TESTS else ())
    return tuple(path for path in chosen[:MAX_TESTS] if path not in sources)


def budget(delta: Sequence[str], known: Known) -> int:
    """Say how many tool calls a task over these files has."""
    sure_framework = known.confidence >= LEAST_CONFIDENCE
    return measures.budget(len(delta), prior_failures=bool(known.failures), sure_framework=sure_framework)


def targets(delta: Sequence[str], known: Known) -> dict[str, str]:
    """Say where in these files the functions are that the exploration found."""
    seen = {each.path: each for each in known.candidates if each.first}
    return {path: measures.target_lines(seen[path].first, seen[path].last) for path in delta if path in seen}


def target(known: Known) -> str:
    """Name the first function that was found, and its line."""
    found = (f"{each.function}@{each.first}" for each in known.candidates if each.first)
    return next(found, "no functions known")


def number(place: int) -> str:
    """Write the place of a task, from 0, as its number."""
    return f"{place + 1:03}"


def _task(place: int, sketch: Sketch, known: Known, project: Project, *, verified: bool) -> PlanTask:
    tools = {
        TaskType.SPEC: lambda: well_formed(project, sketch.delta),
        TaskType.BUILD: lambda: passing(project, sketch.delta, sketch.tests, verified=verified),
        TaskType.VERIFY: lambda: project.tests,
    }[sketch.type]()
    return PlanTask(
        seq=number(place),
        slug=kebab(sketch.slug),
        type=sketch.type,
        delta=sketch.delta,
        verify=project.catalogue.typed(tools),
        budget=budget(sketch.delta, known),
        depends=depends_on(tuple(map(number, sketch.after))),
        target_lines=(targets(sketch.delta, known) or None) if sketch.type is TaskType.BUILD else None,
    )
