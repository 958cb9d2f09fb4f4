"""Asks controllers to set a project up again after its manifests or lock files may have changed.

The operator configures the command. Globs never match such files, so only a step that names one may change it.
"""

from __future__ import annotations

from collections.abc import Iterable

from schemas.base import Mode
from schemas.step import PlannedStep
from tasks.policy.pipeline import ADDED, DRAFTED, Feature, always
from tasks.toolchain.files import decides_installation

SETUP = "setup"  # a capability of controllers


def ask(_: object, steps: Iterable[PlannedStep]) -> tuple[PlannedStep, ...]:
    """Ask for a setup in verified steps that may change a manifest or a lock file, or wait for such a step."""
    settled: list[PlannedStep] = []
    after: set[str] = set()
    for step in steps:
        if any(map(decides_installation, step.allowed_files)) or not after.isdisjoint(step.depends_on):
            after.add(step.step_id)
            if step.verify_tools and step.mode is not Mode.READ_ONLY:
                requires = tuple(
                    dict.fromkeys((*step.requires, SETUP))
                )  # only once, even if a plan is created again from its record
                step = step.model_copy(update={"setup": True, "requires": requires})
        settled.append(step)
    return tuple(settled)


FEATURE = Feature("setting_up", (DRAFTED.row(ask), ADDED.row(ask)), is_idle=always)
