"""The messages of the wire as a controller reads and writes them: a step's spec, and the failure of an attempt.

Only the needed fields of a spec are read, so that a newer planner may send more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import AwareDatetime, Field

from schemas.base import FailureCategory, Folder, Inbound, Mode, Path, PlanId, RiskLevel, StepId, StepType, Word
from schemas.outcome import MAX_TRACE_CHARS, FailureEvidence
from schemas.step import ROOT
from schemas.traceparent import Traceparent
from tasks.toolchain.classify import Diagnosis, classify
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.collecting import errors_in
from worker.client.steps import Held

MESSAGE_CHARS = 4000
TRACE_CHARS = 500
LINE_CHARS = 200
FAILING_TESTS = 5
FILES = 20
TOLD = {"plan", "step"}  # keys of an input that describe a drafted plan and its step


class Tool(Inbound):
    """One verification, ready to run without a shell."""

    tool: Word
    argv: tuple[str, ...] = Field(min_length=1)
    timeout_s: float = Field(gt=0)
    pass_codes: tuple[int, ...] = (0,)
    cwd: Folder = ROOT  # a folder of the repository
    strict: bool = False  # whether it runs in its strict mode


class Answer(Inbound):
    """Answer of an earlier step."""

    step_id: str
    title: str = ""
    output: str
    cut: bool = False


class Context(Inbound):
    """The commit where the work begins, and known facts.

    `failing_tests` to `previous_failure` are data from outside.
    """

    repo: str | None = None
    base_sha: str | None = Field(default=None, pattern=r"^[^-]")  # a word that git cannot take for an option
    at: str | None = None  # `base`: verify that commit, and not the tip of the plan's branch
    then_at: str | None = None  # `target`: then the tip of the target branch too, if it has moved
    failing_tests: tuple[str, ...] = ()
    answers: tuple[Answer, ...] = ()
    failure_log: str = ""
    documents: dict[str, str] = Field(default_factory=dict)
    previous_failure: dict[str, Any] | None = None
    failed_diffs: tuple[str, ...] = ()  # digests of changes that failed the step's verification on this tree
    instructions: dict[str, str] | None = None  # digests of those of the base; None: the goal fixes none


class ChangeLimits(Inbound):
    """The limits on the size of a change and on the risk of its files."""

    max_diff_lines: int | None = None
    max_files: int | None = None
    max_risk: RiskLevel | None = None
    mutants: int | None = None


class Place(Inbound):
    """A place in a file to look at, and the reason."""

    path: str
    lines: str | None = None
    why: str = ""


class Task(Inbound):
    """The type of a step's task, and a hint for it."""

    type: str = ""
    hint: str | None = None


class Accepted(Inbound):
    """A successful attempt that the plan accepted: the digest of its change, and the limits of its size and risk."""

    step_id: str
    attempt: int
    diff_hash: str | None = None
    max_files: int | None = None
    max_risk: RiskLevel | None = None
    created: int | None = None  # number of new files by its outcome


class LandedInput(Inbound):
    """Where the plan's changes have landed: a commit on top of the commit of the target branch."""

    target_sha: str
    result_sha: str


class DeliveryInput(Inbound):
    """The input of a step that lands or delivers: it concerns the changes of these accepted attempts, and no others."""

    accepted: tuple[Accepted, ...]
    target: str | None = None  # the branch that they are for; None: the one that has the commit they begin at
    landed: LandedInput | None = None  # for a delivery
    waited: bool = False  # an earlier attempt did not deliver: its target may have moved since it landed
    allowed: tuple[str, ...] | None = None  # files and patterns of the goal; an older planner does not name them
    excluded: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()  # names that no pattern of the goal means; none: the usual ones
    push: bool = False
    pull_request: bool = False
    title: str = ""
    text: str = ""
    labels: tuple[str, ...] = ()  # of the pull request, in addition to those by its files
    onto: PlanId | None = None  # whose branch the changes are added to
    again: str | None = Field(default=None, pattern=r"^[^-]")  # the commit of that branch, which lands again


class JudgedBy(Inbound):
    """The tests that judge a step again: held-out tests, and the tests of the base except the files in `own`."""

    base: bool = False
    own: tuple[str, ...] = ()
    holdout: str | None = None


class Spec(Inbound):
    """One attempt of one step."""

    plan_id: PlanId
    step_id: StepId
    attempt: int = Field(ge=1, le=1_000_000)
    mode: Mode
    title: str = ""
    intent: str = ""
    success_criteria: str = ""
    guidance: str | None = None
    controller_task_spec: Task = Task()
    allowed_files: tuple[Path, ...] = ()
    allowed_patterns: tuple[str, ...] = ()
    excluded_patterns: tuple[str, ...] = ()
    focus: tuple[Place, ...] = ()
    requires: tuple[str, ...] = ()
    setup: bool = False  # whether a setup is to be run on manifests and lock files as the attempt has left them
    judged_by: JudgedBy | None = None
    piece_of: StepId | None = None  # the step whose change was split, or the first of those that it was split into
    verify_tools: tuple[Tool, ...] = ()
    context: Context = Context()
    limits: ChangeLimits = ChangeLimits()
    lease: Word
    lease_key: str
    deadline: AwareDatetime
    reply_to: str
    traceparent: Traceparent = None  # of the plan's trace, which the agent's environment and the outcome carry on
    input: Any = None  # further task for the agent, see `asks`; the plan goes on with its answer

    @property
    def asks(self) -> bool:
        """Whether the step's input is a question, so that its whole answer is needed.

        A plan or a step in the input is only information.
        """
        return self.input is not None and not (isinstance(self.input, dict) and self.input.keys() <= TOLD)

    @property
    def delivers(self) -> bool:
        """Whether the step delivers the verified changes, without an agent."""
        return self.controller_task_spec.type == StepType.DELIVER

    @property
    def lands(self) -> bool:
        """Whether the step puts the verified changes on top of the target branch."""
        return self.controller_task_spec.type == StepType.LAND

    @property
    def verified_at(self) -> str | None:
        """The commit to verify, if it is not the tip of the plan's branch."""
        return self.context.base_sha if self.context.at == "base" and self.mode is Mode.TEST else None

    @property
    def held(self) -> Held:
        """The fields that identify the attempt to the planner."""
        return Held(self.plan_id, self.step_id, self.attempt, self.lease, self.lease_key, self.reply_to)

    @property
    def ids(self) -> dict[str, str | int]:
        """The ids of the attempt, without its lease, which is a secret and must not be logged."""
        return self.held.ids


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """One failure: the evidence for the planner, a message for people."""

    evidence: FailureEvidence
    message: str


def tool_failure(tool: str, output: str, timed_out: bool) -> AttemptFailure:
    """Return the failure of a verification; if it collected tests, the trace lists each error."""
    failure = _classified(classify(output, tool=tool, timed_out=timed_out), output)
    if tool != COLLECTS or not (errors := errors_in(output)):
        return failure
    trace = "\n".join(errors)[:MAX_TRACE_CHARS]
    return AttemptFailure(failure.evidence.model_copy(update={"stack_trace_head": trace}), failure.message)


def agent_failure(stderr: str, suggestion: str | None) -> AttemptFailure:
    """Return the failure of an agent that gave up, classified by the end of its standard error."""
    return _classified(classify(stderr), stderr, suggestion)


def setup_failure(message: str) -> AttemptFailure:
    """Return the failure of an attempt whose manifests and lock files cannot be installed."""
    finding = classify(message)
    category = FailureCategory.IMPORT_ERROR if finding.category is FailureCategory.UNKNOWN else finding.category
    return _failure(category, message, trace=message[-TRACE_CHARS:])


def agent_timeout(seconds: float, stderr: str) -> AttemptFailure:
    """Return the failure of an agent that took too long. It is no TEST_TIMEOUT: a longer test would not help."""
    message = f"the agent was stopped after {seconds:.0f} s\n{stderr}"
    return _failure(FailureCategory.UNKNOWN, message[:MESSAGE_CHARS], trace=stderr[-TRACE_CHARS:])


def path_failure(category: FailureCategory, message: str, paths: Iterable[str]) -> AttemptFailure:
    """Return the failure of a change with forbidden files."""
    files = tuple(path[:512] for path in paths)[:FILES]
    return _failure(category, f"{message}: {', '.join(files)}"[:MESSAGE_CHARS], files=files)


def advice(message: str) -> AttemptFailure:
    """Return a failure whose message is advice for the agent, such as: make it smaller."""
    return _failure(FailureCategory.UNKNOWN, message, suggestion=message)


def unproved(category: FailureCategory, why: str, tests: Iterable[str] = ()) -> AttemptFailure:
    """Return the failure of tests that prove nothing, although they ended without an error."""
    failure = _failure(category, why[:MESSAGE_CHARS], suggestion=why[:MESSAGE_CHARS])
    named = tuple(test[:1000] for test in tests)[:FAILING_TESTS]
    return AttemptFailure(failure.evidence.model_copy(update={"top_failing_tests": named}), failure.message)


def own_failure(error: Exception) -> AttemptFailure:
    """Return the failure of an error in the controller itself, as when git refuses."""
    message = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS]
    message = message.encode(errors="replace").decode()  # a file's name need not be text that JSON can hold
    return _failure(FailureCategory.UNKNOWN, message, trace=message[:TRACE_CHARS])


def with_line(failure: AttemptFailure, line: str) -> AttemptFailure:
    """Return the failure with `line` at the end of its trace, which is truncated to make room."""
    evidence, line = failure.evidence, line[:LINE_CHARS]
    trace = f"{(evidence.stack_trace_head or '')[: TRACE_CHARS - len(line) - 1]}\n{line}"
    return AttemptFailure(evidence.model_copy(update={"stack_trace_head": trace}), failure.message)


def _failure(
    category: FailureCategory, message: str, files: tuple[str, ...] = (), trace: str = "", suggestion: str | None = None
) -> AttemptFailure:
    evidence = FailureEvidence(
        category=category, affected_files=files, stack_trace_head=trace or message[:TRACE_CHARS], suggestion=suggestion
    )
    return AttemptFailure(evidence, message)


def _classified(finding: Diagnosis, text: str, suggestion: str | None = None) -> AttemptFailure:
    evidence = FailureEvidence(
        category=finding.category,
        top_failing_tests=tuple(test[:1000] for test in finding.failing_tests[:FAILING_TESTS]),
        stack_trace_head=finding.trace[:TRACE_CHARS],
        suggestion=suggestion,
        error_codes=tuple(code[:200] for code in finding.codes if code)[:FILES],
        affected_files=tuple(file[:512] for file in finding.files if file)[:FILES],
        error_line=finding.line,
    )
    return AttemptFailure(evidence, text[-MESSAGE_CHARS:])
