"""The templates of `task` goals, as data: one table of rows for each type of goal.

A row is one step, or several if its risk level does not allow so many files in one. `after` names the rows that it
waits for. If such a row is dropped, its own `after` replaces it. The words of a goal replace `{goal}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from types import MappingProxyType

from schemas.base import RiskLevel, StepType
from tasks.strategies.drafting.project import Check
from tasks.strategies.task.goal_type import GoalType
from tasks.toolchain.files import Role

EVERY = tuple(Role)
CODE = (Role.SOURCE, Role.MANIFEST, Role.TEST)


class Finding(Enum):
    """The fact that a step is to find; the step is dropped if the goal already contains this fact."""

    CAUSE = auto()
    PLACE = auto()


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a template; it makes no step if it needs files of some roles and the goal has none."""

    step_id: str
    title: str
    intent: str
    type: StepType
    after: tuple[str, ...] = ()
    roles: tuple[Role, ...] = ()
    or_every: bool = False  # all of the allowlist, if it has no file of these roles
    first: tuple[Role, ...] = ()  # files of these roles come before the others
    risk: RiskLevel = RiskLevel.LOW
    check: Check = Check.NONE
    success: str = ""  # condition on an answer, which no tool verifies
    hint: str | None = None
    allow_empty: bool = False  # there may be nothing to change
    finds: Finding | None = None
    names_files: bool = False  # its answer does; the last such row before a change is asked for places
    spares_tests: bool = False  # the failing tests are right: they may change only if the goal names them


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of one type of goal, with the assumptions and constraints of their plan."""

    rows: tuple[Row, ...]
    assumptions: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


READ, EXPLORE, DRAFT = StepType.READ, StepType.EXPLORE, StepType.DRAFT
PATCH, TEST, MED = StepType.PATCH, StepType.TEST, RiskLevel.MED

REPAIR = Template(
    rows=(
        Row("analyze-failure", "Analyze the failure", "Find the root cause of: {goal}", READ,
            success="The root cause is named, with the evidence for it.", finds=Finding.CAUSE, names_files=True),
        Row("locate-source", "Locate the source of the bug", "Find the file, function and line to change for: {goal}",
            EXPLORE, after=("analyze-failure",), success="The place to change is named.", finds=Finding.PLACE,
            names_files=True),
        Row("implement-fix", "Implement the fix", "Fix with the smallest change that is right: {goal}", PATCH,
            after=("locate-source",), roles=EVERY, risk=MED, check=Check.OWN, spares_tests=True),
        Row("verify-focused", "Verify the failing tests", "Run the tests that failed, for: {goal}", TEST,
            after=("implement-fix",), check=Check.FOCUSED),
        Row("verify-regression", "Verify that nothing else broke", "Run the whole test suite after: {goal}", TEST,
            after=("verify-focused",), check=Check.TESTS),
    ),
    assumptions=("The failure comes from a bug in the code and is not flaky.", "A minimal change can fix it."),
    constraints=("No refactoring.",),
)  # fmt: skip

FEATURE = Template(
    rows=(
        Row("understand-requirements", "Understand the requirements", "Say what is needed for: {goal}", READ,
            success="The requirements are listed."),
        Row("design-approach", "Design the solution", "Design how to do it along the existing patterns: {goal}", DRAFT,
            after=("understand-requirements",), success="The design names the files and functions to change.",
            names_files=True),
        Row("implement-core", "Implement the core logic", "Implement: {goal}", PATCH, after=("design-approach",),
            roles=CODE, or_every=True, risk=MED, check=Check.OWN, hint="Follow the existing patterns and style."),
        Row("add-tests", "Add unit tests", "Add tests for: {goal}", PATCH, after=("implement-core",),
            roles=(Role.TEST,), check=Check.QUICK),
        Row("verify-new-tests", "Verify the new tests", "Run the new tests of: {goal}", TEST, after=("add-tests",),
            roles=(Role.TEST,), check=Check.NEW_TESTS),
        Row("update-docs", "Update the documentation", "Document: {goal}", PATCH, after=("verify-new-tests",),
            roles=(Role.DOCUMENT,), allow_empty=True),
        Row("verify-full", "Run the full test suite", "Run all tests after: {goal}", TEST, after=("update-docs",),
            check=Check.TESTS),
    ),
    assumptions=("The existing patterns are to be followed.", "The feature needs tests."),
    constraints=("Keep the existing style.",),
)  # fmt: skip

WRITE_TESTS = Template(
    rows=(
        *FEATURE.rows[:2],
        Row("add-tests", "Add the tests", "Add tests for: {goal}", PATCH, after=("design-approach",),
            roles=(Role.TEST,), or_every=True, check=Check.NEW_TESTS),
        Row("verify-full", "Run the full test suite", "Run all tests after: {goal}", TEST, after=("add-tests",),
            check=Check.TESTS),
    ),
    assumptions=("The tested code is right: only tests change.",),
    constraints=FEATURE.constraints,
)  # fmt: skip

REFACTOR = Template(
    rows=(
        Row("analyze-code", "Analyze the code", "Find what must change and what uses it, for: {goal}", READ,
            success="The code to change and its callers are named."),
        Row("plan-refactor", "Plan and design the refactoring", "Plan small steps that keep behaviour, for: {goal}",
            DRAFT, after=("analyze-code",), success="The plan names each move and the files it touches.",
            names_files=True),
        Row("implement-refactor", "Refactor the code", "Refactor without changing behaviour: {goal}", PATCH,
            after=("plan-refactor",), roles=EVERY, risk=MED, check=Check.OWN, hint="Behaviour must not change."),
        Row("verify-full", "Verify with the full test suite", "Run all tests after: {goal}", TEST,
            after=("implement-refactor",), check=Check.TESTS),
    ),
    assumptions=("The tests describe the behaviour that must stay.",),
    constraints=("No change of behaviour.",),
)  # fmt: skip

BUILD = Template(
    rows=(
        Row("analyze-build", "Analyze the build failure", "Find why the build fails: {goal}", READ,
            success="The cause of the build failure is named.", names_files=True),
        Row("fix-build", "Fix the build", "Make the build pass: {goal}", PATCH, after=("analyze-build",), roles=EVERY,
            risk=MED, check=Check.BUILD),
        Row("verify-build", "Verify the build", "Build again after: {goal}", TEST, after=("fix-build",),
            check=Check.BUILD),
        Row("verify-full", "Verify with the full test suite", "Run all tests after: {goal}", TEST,
            after=("verify-build",), check=Check.TESTS),
    ),
    assumptions=("The build fails because of the code or its manifests, not of the machine.",),
)  # fmt: skip

DEPENDENCY = Template(
    rows=(
        Row("analyze-deps", "Analyze the dependencies", "Find what conflicts, is missing or must move: {goal}", READ,
            success="The dependencies to change, their versions and the code to adapt to them are named.",
            names_files=True),
        Row("resolve-deps", "Resolve the dependencies", "Pin, add or upgrade what is needed: {goal}", PATCH,
            after=("analyze-deps",), roles=CODE, or_every=True, first=(Role.MANIFEST,), risk=MED, check=Check.OWN,
            hint="Adapt the code that does not fit to the new versions."),
        Row("verify-install", "Verify with the new dependencies", "Run all tests after: {goal}", TEST,
            after=("resolve-deps",), check=Check.TESTS),
    ),
    assumptions=("Code is changed only where the new versions ask for it.",),
)  # fmt: skip

OBSERVATION = Template(
    rows=(
        Row("observe-failure", "Observe without changing anything", "Collect what can be seen of: {goal}", EXPLORE,
            success="What happens, where and how often is written down."),
        Row("analyze-logs", "Analyze the observations", "Form a hypothesis from the data collected on: {goal}", READ,
            after=("observe-failure",), success="A hypothesis and the way to test it are named."),
    ),
    assumptions=("Too little is known to change anything yet.",),
)  # fmt: skip

GENERIC = Template(
    rows=(
        Row("analyze", "Analyze the task", "Understand what is asked and what it touches: {goal}", READ,
            success="The code to change is named.", names_files=True),
        Row("implement", "Implement the change", "Make the change: {goal}", PATCH, after=("analyze",), roles=EVERY,
            risk=MED, check=Check.OWN),
        Row("verify", "Verify the change", "Confirm that it is done: {goal}", TEST, after=("implement",),
            check=Check.TESTS),
    ),
)  # fmt: skip

TEMPLATES: Mapping[GoalType, Template] = MappingProxyType(
    {
        GoalType.REPAIR: REPAIR,
        GoalType.FEATURE: FEATURE,
        GoalType.REFACTOR: REFACTOR,
        GoalType.BUILD: BUILD,
        GoalType.DEPENDENCY: DEPENDENCY,
        GoalType.OBSERVATION: OBSERVATION,
        GoalType.GENERIC: GENERIC,
    }
)
