"""Says why an attempt failed, in the words of the wire."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from schemas.base import FailureCategory
from schemas.outcome import FailureEvidence
from tasks.toolchain.classify import Diagnosis, classify

MESSAGE_CHARS = 4000
TRACE_CHARS = 500
LINE_CHARS = 200
FAILING_TESTS = 5
FILES = 20


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure: the evidence for the planner, a message for people."""

    evidence: FailureEvidence
    message: str


def of_tool(tool: str, output: str, timed_out: bool) -> Failure:
    """A verification failed."""
    return _classified(classify(output, tool=tool, timed_out=timed_out), output)


def of_agent(stderr: str, suggestion: str | None) -> Failure:
    """The agent gave up; the end of its standard error is what we know."""
    return _classified(classify(stderr), stderr, suggestion)


def of_agent_timeout(seconds: float, stderr: str) -> Failure:
    """The agent took too long. That is no TEST_TIMEOUT: a longer test would not help."""
    message = f"the agent was stopped after {seconds:.0f} s\n{stderr}"
    return _failure(FailureCategory.UNKNOWN, message[:MESSAGE_CHARS], trace=stderr[-TRACE_CHARS:])


def of_paths(category: FailureCategory, message: str, paths: Iterable[str]) -> Failure:
    """The change touches what it may not."""
    files = tuple(path[:512] for path in paths)[:FILES]
    return _failure(category, f"{message}: {', '.join(files)}"[:MESSAGE_CHARS], files=files)


def of_advice(message: str) -> Failure:
    """What went wrong says itself what to do, such as: make it smaller."""
    return _failure(FailureCategory.UNKNOWN, message, suggestion=message)


def of_error(error: Exception) -> Failure:
    """The controller itself could not do its part, such as git refusing."""
    message = f"{type(error).__name__}: {error}"[:MESSAGE_CHARS]
    message = message.encode(errors="replace").decode()  # a file's name need not be text that JSON can hold
    return _failure(FailureCategory.UNKNOWN, message, trace=message[:TRACE_CHARS])


def with_line(failure: Failure, line: str) -> Failure:
    """Add a line to what is told of a failure, which makes room for it."""
    told, line = failure.evidence, line[:LINE_CHARS]
    trace = f"{(told.stack_trace_head or '')[: TRACE_CHARS - len(line) - 1]}\n{line}"
    return Failure(told.model_copy(update={"stack_trace_head": trace}), failure.message)


def _failure(
    category: FailureCategory, message: str, files: tuple[str, ...] = (), trace: str = "", suggestion: str | None = None
) -> Failure:
    evidence = FailureEvidence(
        category=category, affected_files=files, stack_trace_head=trace or message[:TRACE_CHARS], suggestion=suggestion
    )
    return Failure(evidence, message)


def _classified(finding: Diagnosis, text: str, suggestion: str | None = None) -> Failure:
    evidence = FailureEvidence(
        category=finding.category,
        top_failing_tests=tuple(test[:1000] for test in finding.failing_tests[:FAILING_TESTS]),
        stack_trace_head=finding.trace[:TRACE_CHARS],
        suggestion=suggestion,
        error_codes=tuple(code[:200] for code in finding.codes if code)[:FILES],
        affected_files=tuple(file[:512] for file in finding.files if file)[:FILES],
        error_line=finding.line,
    )
    return Failure(evidence, text[-MESSAGE_CHARS:])
