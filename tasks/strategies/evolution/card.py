"""Makes the card of a finished plan's commit, for the next goals of the same experiment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from schemas.base import Mode
from schemas.kinds.evolution import (
    MAX_HIGHLIGHTS,
    MAX_KEY_FILES,
    MAX_METRICS,
    CardHash,
    CommitCard,
    CommitMetric,
    CommitPlanningContext,
    PlanningPlan,
)
from tasks.rules.strategy import End
from tasks.strategies.evolution.state import Progress
from tasks.text.fields import fit

BRANCH = "planner/"  # prefix of a plan's branch, before the plan's id
_HASH: TypeAdapter[str] = TypeAdapter(CardHash)


def add(progress: Progress, end: End, title: str | None) -> Progress:
    """Return the progress with the result of one step; a later measurement replaces an earlier one of the same name."""
    measured = {fit(name, 128): value for name, value in end.evaluation.items()}
    update: dict[str, Any] = {"evaluation": dict([*{**progress.evaluation, **measured}.items()][-MAX_METRICS:])}
    if end.facts["mode"] == Mode.PATCH:
        titles = dict.fromkeys((*progress.titles, *filter(None, [title])))
        update["commit"] = end.commit or progress.commit
        update["files"] = tuple(dict.fromkeys((*progress.files, *end.touched_files)))[:MAX_KEY_FILES]
        update["titles"] = tuple(titles)[:MAX_HIGHLIGHTS]
    return progress.model_copy(update=update)


def card_of(base: CommitPlanningContext, progress: Progress, plan: PlanningPlan, plan_id: str) -> dict[str, Any]:
    """Return the card of the plan's commit; without a reported commit it has the name of the plan's branch."""
    metrics = tuple(_metrics(base, progress.evaluation))
    told = [f"{each.name} {each.value:.10g}{_before(each, base.metrics)}" for each in metrics]
    card = CommitCard(
        commit_hash=_name_of(progress.commit) or fit(f"{BRANCH}{plan_id}", 64),
        parent_commit_hash=base.commit_hash,
        subject=plan.summary,
        change_summary=plan.summary,
        key_files=progress.files,
        highlights=progress.titles,
        evaluation_summary=", ".join(told) or None,
        metrics=metrics,
    )
    return card.model_dump(mode="json", exclude_none=True)


def _name_of(commit: str | None) -> str | None:
    """Return the commit's name as its controller reported it; None if a card cannot have this name."""
    try:
        return _HASH.validate_python(fit(_HASH.validate_python(commit or ""), 64))
    except ValidationError:
        return None


def _metrics(base: CommitPlanningContext, evaluation: Mapping[str, float]) -> Iterator[CommitMetric]:
    """Yield the measured values, each with the unit and direction of the base's metric of the same name."""
    known = {each.name: each for each in base.metrics}
    for name, value in evaluation.items():
        like = known.get(name)
        unit, direction = (like.unit, like.higher_is_better) if like else (None, None)
        yield CommitMetric(name=name or "metric", value=value, unit=unit, higher_is_better=direction)


def _before(metric: CommitMetric, base: tuple[CommitMetric, ...]) -> str:
    return next((f" (base {each.value:.10g})" for each in base if each.name == metric.name), "")
