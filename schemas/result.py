"""The result of a plan, as every endpoint shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Outbound, PlanState


class IntegrityView(Outbound):
    """The effect of a change on tests or checks at one place, and the action: `refuse`, `approve` or `tell`."""

    step_id: str
    action: str
    kind: str
    path: str
    line: int
    what: str


class FileResult(Outbound):
    """A file that a plan changed; lines are null without a diff of it."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    added: int | None = None
    removed: int | None = None


class StepResult(Outbound):
    """A step that landed a change as the commit `commit`, which the git ref `ref` contains.

    `diff_bytes` is null if its diff is not kept, and `no_diff` is the reason.
    """

    step_id: str
    title: str
    attempt: int
    files: tuple[FileResult, ...]
    more_files: int = 0
    added: int | None = None
    removed: int | None = None
    commit: str | None = None
    ref: str | None = None
    diff_bytes: int | None = None
    no_diff: str = ""


class VerifiedBy(Outbound):
    """A verification: its result at the plan's base commit (null: it did not run there), and at the end.

    The counts are those of the tests in its last report, null without one.
    """

    step_id: str
    tool: str
    command: str
    folder: str = "."
    before: Literal["red", "green"] | None = None
    now: Literal["red", "green"]
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None


class AnswerResult(Outbound):
    """The answer of a step that only reads: data from outside, truncated."""

    step_id: str
    title: str
    text: str
    is_cut: bool = False


class IntegrityResult(Outbound):
    """How many changes were checked for weakened tests and checks, and the findings."""

    looked_at: int
    places: tuple[IntegrityView, ...] = ()


class Spent(Outbound):
    """The usage of a plan; seconds count from its creation to its end, or until now."""

    tokens: int
    cost_usd: float | None
    seconds: int
    attempts: int
    failed_attempts: int


class Way(Outbound):
    """An option for a plan that failed: an action of the page with the first values of its form."""

    text: str
    act: Literal["retry"] = "retry"
    values: dict[str, str] = Field(default_factory=dict)


class FailureResult(Outbound):
    """The last failed attempt before a plan halted: failing tests, the last lines of its output, and options.

    Tests and output are data from outside.
    """

    step_id: str | None = None
    attempt: int | None = None
    tests: tuple[str, ...] = ()
    more_tests: int = 0
    output: str = ""
    ways: tuple[Way, ...] = ()


class PlanResult(Outbound):
    """The results of a plan, so far or at its end. `sentence` is for people; `take` is the command to get the change.

    `take_in` is the folder for that command. `unread` is the reason if attempts are missing here. Lists are truncated,
    and `more_files` and `more_steps` count the missing entries.
    """

    plan_id: str
    state: PlanState
    sentence: str
    failure: FailureResult | None = None
    files: tuple[FileResult, ...] = ()
    more_files: int = 0
    added: int | None = None
    removed: int | None = None
    steps: tuple[StepResult, ...] = ()
    more_steps: int = 0
    verified_by: tuple[VerifiedBy, ...] = ()
    unverified: str | None = None
    doubt: str | None = None
    integrity: IntegrityResult
    answers: tuple[AnswerResult, ...] = ()
    branch: str | None = None
    pull_request: str | None = None
    undelivered: str | None = None
    take: str = ""
    take_in: str = ""
    spent: Spent
    unread: str = ""
