"""Makes the drafter's request from an evolution goal, and finds everything that keeps the goal from getting a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from typing import Any

from schemas import codec
from schemas.base import Inbound
from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.kinds.evolution import (
    ChunkSummary,
    CommitMetric,
    CommitPlanningContext,
    Evolution,
    PlanningAgentRequest,
)
from tasks.rules.validation import max_steps
from tasks.strategies.drafting.cycle import NONE, QUEUE
from tasks.strategies.drafting.project import NO_VERIFICATION, Project, only_documents
from tasks.strategies.evolution.trajectory import History, Rollup, TrajectoryOptions, rollup
from tasks.text.fields import fit, several_lines
from tasks.text.sanitize import TOKEN

MAX_BULLET = 200  # characters
MAX_CONSTRAINTS = 20
MAX_GOAL = 2000  # stored characters
FOCUS = 3  # metrics of the base in a plan without its own
HISTORY = ("trajectory", "trajectory_meta", "key_files", "highlights", "evaluation_summary", "metrics")
PLACE = ("cell_index", "objective", "measures")  # in the archive

NO_DRAFTER = "An evolution goal is planned by a drafter: set drafter to queue, or to another that is enabled here."
NO_INPUT = "An evolution goal needs its input: set evolution.base to the commit to start from."
NO_FILES = "A step that patches needs them: set allowed_files to the files that may change."
NO_ROOM = "A plan that is drafted has two steps at least: raise limits.max_steps."
NO_GOAL = "The goal is empty after the removal of text that reads like an attack on the agent is taken out."

_COMMIT = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A drafter's request, and the counts of its trajectories for the plan's document."""

    request: PlanningAgentRequest
    trajectories: tuple[dict[str, Any], ...] = ()


def prepare(
    evolution: Evolution, goal: Goal, options: TrajectoryOptions, summaries: Sequence[ChunkSummary] = ()
) -> PreparedRequest:
    """Return the drafter's request for `goal`.

    The goal's sentence is the aim if the evolution input names no aim. The goal's constraints are always added. If the
    goal and `summaries` both have a summary of a chunk, that of the goal counts.
    """
    base, inspirations = evolution.base, evolution.inspirations
    rollups: list[Rollup] = []
    at_root = base.commit_hash == evolution.experiment_root and not inspirations
    cold = evolution.cold_start or at_root
    if cold:  # without the base's history and its evaluation
        fields = CommitPlanningContext.model_fields
        base = base.model_copy(update={name: fields[name].get_default() for name in (*HISTORY, *PLACE)})
        inspirations = ()
    elif evolution.commit_cards:
        written = (*summaries, *evolution.chunk_summaries)
        history = History.of(evolution.commit_cards, base.commit_hash, evolution.experiment_root, written)
        rollups = [rollup(history, each.commit_hash, options) for each in inspirations]
        inspirations = tuple(
            each.model_copy(update={"trajectory": found.lines, "trajectory_meta": dict(found.meta)})
            for each, found in zip(inspirations, rollups, strict=True)
        )
    constraints = (*evolution.constraints, *(fit(each, MAX_BULLET, several_lines) for each in goal.constraints))
    request = PlanningAgentRequest(
        base=_known(base),
        inspirations=_known(inspirations),
        goal=evolution.goal if evolution.goal and evolution.goal.strip() else goal.goal,
        constraints=tuple(dict.fromkeys(constraints))[:MAX_CONSTRAINTS],
        acceptance_criteria=evolution.acceptance_criteria,
        iteration_hint=evolution.iteration_hint,
        cold_start=cold,
    )
    return PreparedRequest(request, tuple(dict(found.meta) for found in rollups if found.meta))


def start_at_base(goal: Goal, evolution: Evolution) -> Goal:
    """Begin the work at the base commit, unless the goal names another."""
    base = evolution.base.commit_hash
    if goal.context.base_sha or not _COMMIT.fullmatch(base):
        return goal
    return goal.model_copy(update={"context": goal.context.model_copy(update={"base_sha": base})})


def digest(value: PlanningAgentRequest | str) -> str:
    """Return the digest of a request or a prompt."""
    raw = value.encode() if isinstance(value, str) else codec.canonical(value.model_dump(mode="json"))
    return f"sha256:{sha256(raw).hexdigest()}"


def remember(request: PlanningAgentRequest) -> PlanningAgentRequest:
    """Return the parts of a request that are needed to read its answer, with sanitized words."""
    metrics = (
        CommitMetric(
            name=fit(each.name, 128) or "metric",
            value=each.value,
            unit=fit(each.unit or "", 32) or None,
            higher_is_better=each.higher_is_better,
        )
        for each in request.base.metrics
    )
    return PlanningAgentRequest(
        base=CommitPlanningContext(commit_hash=request.base.commit_hash, metrics=tuple(islice(metrics, FOCUS))),
        goal=fit(request.goal, MAX_GOAL) or TOKEN,
        constraints=tuple(fit(each, MAX_BULLET) for each in request.constraints),
        acceptance_criteria=tuple(fit(each, MAX_BULLET) for each in request.acceptance_criteria),
        cold_start=request.cold_start,
    )


def shortcomings(goal: Goal, project: Project, drafter: str) -> tuple[FieldError, ...]:
    """Return an error for everything that keeps an evolution goal from getting a plan; empty if nothing does."""
    evolution = goal.evolution
    asked = fit((evolution.goal if evolution else None) or goal.goal, MAX_GOAL)
    untested = bool(project.files) and not project.tests and not only_documents(project.files)
    rules = (
        (evolution is None, "/evolution", "no_evolution", NO_INPUT),
        (drafter == NONE, "/drafter", "no_drafter", NO_DRAFTER),
        (not re.search(r"\w", asked.replace(TOKEN, "")), "/evolution/goal", "empty_after_sanitizing", NO_GOAL),
        (not project.files, "/allowed_files", "no_allowed_files", NO_FILES),
        (untested, "/context/test_command", "no_verification", NO_VERIFICATION),
        (drafter == QUEUE and max_steps(goal) < 2, "/limits/max_steps", "too_many_steps", NO_ROOM),
    )
    return tuple(FieldError(pointer=where, code=code, message=why) for wrong, where, code, why in rules if wrong)


def _known(value: Any) -> Any:
    """Return a copy of messages without unknown fields, at any depth, because their size has no limit."""
    if isinstance(value, tuple):
        return tuple(map(_known, value))
    if not isinstance(value, Inbound):
        return value
    kind = type(value)
    return kind.model_construct(**{name: _known(getattr(value, name)) for name in kind.model_fields})
