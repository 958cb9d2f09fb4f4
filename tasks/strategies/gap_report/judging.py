"""Which tests judge an iteration: all, or those that passed before, where it is another gap that some fail.

Verified by tests that fail whatever it does, no iteration could ever succeed before that other gap is closed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from schemas.gap import Gap
from schemas.goal import Goal
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report import evidence
from tasks.strategies.gap_report.analysis import category_of
from tasks.strategies.gap_report.history import key
from tasks.strategies.gap_report.places import Places
from tasks.toolchain.files import name_of

_RUN = re.compile(r"test_.*\.py|.*_test\.py|.*[.-](?:test|spec)\.[cm]?[jt]sx?")  # what a runner finds tests in


def judges_of(chosen: Gap, gaps: Iterable[Gap], goal: Goal, places: Places) -> tuple[str, ...] | None:
    """List the files of tests that passed before; None where all tests judge."""
    failing = [gap for gap in gaps if _is_of_tests(gap) and key(gap) != key(chosen)]
    if _is_of_tests(chosen) or not failing:
        return None
    blamed = {name.partition("::")[0] for name in goal.context.failing_tests}
    blamed.update(path for gap in failing for path in places.located(evidence.mentions(gap.evidence, odd=places.odd)))
    runnable = (path for path in places.files if path in places.existing and _RUN.fullmatch(name_of(path)))
    return tuple(path for path in runnable if path not in blamed) if blamed else ()


def judged(project: Project, judges: Sequence[str] | None) -> Project:
    """Aim the project's tests at those that judge; where they cannot be aimed, the checks of the language are left."""
    if judges is None or not project.tests or project.language is None:
        return project
    *before, last = project.tests
    aimed = project.catalogue.narrow(last, judges) if judges else None
    return replace(project, tests=(*before, aimed) if aimed else ())


def _is_of_tests(gap: Gap) -> bool:
    return category_of(gap) == "quality" and evidence.runs_tests(evidence.tool_of(gap.description))
