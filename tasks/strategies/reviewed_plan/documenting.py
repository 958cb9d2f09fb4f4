"""The technical writer's steps after the code: documents around what was changed (seed 002, executor step 6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schemas.review_plan import Plan
from schemas.step import PlannedStep
from tasks.strategies.reviewed_plan.implementing import Site, checks, declared, path_of, pieces
from tasks.strategies.reviewed_plan.integrity import files_of
from tasks.strategies.reviewed_plan.roles import RoleName, is_external
from tasks.strategies.reviewed_plan.steps import guided, patch_step, suffix
from tasks.toolchain.files import Role, role_of


def of_docs(site: Site, number: int) -> tuple[PlannedStep, ...] | None:
    """Make the steps that document the outcome, all at once; in later rounds for what failed as well."""
    if number:
        return None
    own = _planned(site.plan)
    failed = [path for path in map(path_of, site.failed) if path in own]
    files = tuple(dict.fromkeys((*documents(site.plan, site.project.files), *failed)))
    parts = pieces(files, declared(files))
    told = guided(site.brief, site.failed, site.project.goal.constraints)
    steps: list[PlannedStep] = []
    for count, piece in enumerate(parts, 1):
        place = f"-{count}" if len(parts) > 1 else ""
        made = patch_step(
            site.brief,
            f"{site.brief.name}{place}{suffix(site.iteration)}",
            piece.files,
            title=f"{site.brief.title}{f' ({count} of {len(parts)})' if place else ''}",
            intent=f"Document what was made for: {site.plan.overview.problem or site.project.goal.goal}",
            success="; ".join(site.brief.checklist),
            role=RoleName.WRITER,
            level=declared(piece.files),
            tools=checks(site.project, piece),
            guidance=told,
            depends_on=(steps[-1].step_id,) if steps and piece.phase else (),
            phase=piece.phase,
        )
        steps.append(made)
    return tuple(steps)


def documents(plan: Plan, allowed: Sequence[str]) -> tuple[str, ...]:
    """List the documents of the allowlist that lie beside or above a file of the plan."""
    folders = {folder for path in _planned(plan) for folder in _folders(path)}
    return tuple(path for path in allowed if role_of(path) is Role.DOCUMENT and path.rpartition("/")[0] in folders)


def _planned(plan: Plan) -> set[str]:
    return {path for each in plan.milestones if not is_external(each) for path in files_of(each)}


def _folders(path: str) -> Iterator[str]:
    while path:
        path = path.rpartition("/")[0]
        yield path
