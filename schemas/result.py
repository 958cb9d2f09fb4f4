"""The result of a plan, as every door shows it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from schemas.base import Outbound, PlanState


class IntegrityView(Outbound):
    """What a change did to tests or checks at one place, and what became of the change: refuse, approve or tell."""

    step_id: str
    action: str
    kind: str
    path: str
    line: int
    what: str


class FileResult(Outbound):
    """A file that a plan changed; lines are null where no diff of it came."""

    path: str
    kind: Literal["created", "changed", "deleted"]
    added: int | None = None
    removed: int | None = None


class StepResult(Outbound):
    """A step that landed a change: as `commit`, which the ref `ref` has.

    `diff_bytes` is null where its diff is not kept, and `no_diff` says why.
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
    """A verification: what it found at the plan's base commit (null: it did not run there), and at the end.

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
    """What a step that only looks answered: data from outside, cut."""

    step_id: str
    title: str
    text: str
    is_cut: bool = False


class IntegrityResult(Outbound):
    """How many changes were looked at for what weakens tests and checks, and what was found."""

    looked_at: int
    places: tuple[IntegrityView, ...] = ()


class Spent(Outbound):
    """What a plan used: seconds are those from its making to its end, or until now."""

    tokens: int
    cost_usd: float | None
    seconds: int
    attempts: int
    failed_attempts: int


class Way(Outbound):
    """A way on for a plan that failed: an act of the page with the values that its form begins with."""

    text: str
    act: Literal["retry"] = "retry"
    values: dict[str, str] = Field(default_factory=dict)


class FailureResult(Outbound):
    """The last attempt that failed before a plan halted: failing tests, the last lines it told, and ways on.

    Tests and output are data from outside.
    """

    step_id: str | None = None
    attempt: int | None = None
    tests: tuple[str, ...] = ()
    more_tests: int = 0
    output: str = ""
    ways: tuple[Way, ...] = ()


class PlanResult(Outbound):
    """What a plan did, so far or in the end. `sentence` is for people; `take` is the command that takes the change.

    `take_in` says where that command is to be run. `unread` says why attempts are missing here. Lists are cut, and
    `more_files` and `more_steps` say how much is missing.
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
