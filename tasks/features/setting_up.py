"""Asks controllers to set a project up again, once its manifests or lock files may have changed.

Which command that is, is the operator's. Globs never mean such files, so that a step which may change one may do so by
its name.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.base import Mode
from schemas.goal import Goal
from schemas.step import PlannedStep
from tasks.plan.unit_of_work import UnitOfWork
from tasks.policy.pipeline import ADDED, DRAFTED, Feature, always
from tasks.toolchain.files import decides_installation

SETUP = "setup"  # what a controller has to understand


def ask_first(_: Goal, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Settle which of the first steps of a plan ask for a setup."""
    return ask(steps)


def ask_added(_: UnitOfWork, steps: tuple[PlannedStep, ...]) -> tuple[PlannedStep, ...]:
    """Settle the same for steps that a plan expands to."""
    return ask(steps)


def ask(steps: Iterable[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Have those ask that may change a manifest or a lock file, or wait for such a step, and are verified."""
    settled: list[PlannedStep] = []
    after: set[str] = set()
    for step in steps:
        if any(map(decides_installation, step.allowed_files)) or not after.isdisjoint(step.depends_on):
            after.add(step.step_id)
            if step.verify_tools and step.mode is not Mode.READ_ONLY:
                requires = tuple(
                    dict.fromkeys((*step.requires, SETUP))
                )  # once, also where a plan is made again from its record
                step = step.model_copy(update={"setup": True, "requires": requires})
        settled.append(step)
    return tuple(settled)


FEATURE = Feature("setting_up", (DRAFTED.row(ask_first), ADDED.row(ask_added)), is_idle=always)
