"""Gives the step to the agent command and reads its report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from schemas import codec
from schemas.outcome import MAX_OUTPUT_BYTES
from worker.controller import evidence
from worker.controller.evidence import MESSAGE_CHARS, Failure
from worker.sandbox.process import Finished

Run = Callable[[Sequence[str], float, bytes], Finished]  # an argv, seconds, and what it reads

MOST = 10**12
REPORTED = frozenset({"tokens_used", "patch_cycles", "tool_calls", "output", "suggestion"})


@dataclass(frozen=True, slots=True)
class Report:
    """What the agent says of its work. It is not believed about files or tests: git and the verification are asked."""

    tokens_used: int | None = None
    patch_cycles: int | None = None
    tool_calls: int | None = None
    output: Any = None
    suggestion: str | None = None
    failure: Failure | None = None


def work(run: Run, argv: Sequence[str], spec: bytes, timeout_s: float, *, whole: bool = False) -> Report:
    """Run the agent with `spec` on its standard input; raises what `run` does.

    Without a report all that it prints is its answer: JSON where it is some, else text, cut unless it must be `whole`.
    """
    if not argv:
        return Report(failure=evidence.of_advice("this controller has no agent command"))
    done = run(argv, timeout_s, spec)
    said = _last_line(done.stdout)
    suggestion = said.get("suggestion")
    return Report(
        tokens_used=_count(said.get("tokens_used")),
        patch_cycles=_count(said.get("patch_cycles")),
        tool_calls=_count(said.get("tool_calls")),
        output=said.get("output") if said else _answer(done.stdout, whole=whole),
        suggestion=suggestion[:MESSAGE_CHARS] if isinstance(suggestion, str) else None,
        failure=_failure(done, timeout_s, suggestion if isinstance(suggestion, str) else None),
    )


def _failure(done: Finished, timeout_s: float, suggestion: str | None) -> Failure | None:
    if done.timed_out:
        return evidence.of_agent_timeout(timeout_s, done.stderr[-MESSAGE_CHARS:])
    if done.exit_code:
        tail = done.stderr[-MESSAGE_CHARS:].strip() or f"the agent ended with exit code {done.exit_code}"
        return evidence.of_agent(tail, suggestion and suggestion[:MESSAGE_CHARS])
    return None


def _last_line(stdout: str) -> dict[str, Any]:
    """Read the report on the last line; a JSON object without a word of a report is an answer, and none of it."""
    said = _json(stdout.rstrip().rpartition("\n")[2])
    return said if isinstance(said, dict) and said.keys() & REPORTED else {}


def _answer(stdout: str, *, whole: bool) -> Any:
    """Take what was printed as the answer: most agent commands simply print theirs."""
    text = stdout.strip()
    if isinstance(said := _json(text), dict | list):
        return said
    return (text if whole else text.encode()[: MAX_OUTPUT_BYTES // 2].decode(errors="ignore")) or None


def _json(text: str) -> Any:
    try:
        return codec.loads(text)
    except codec.DecodeError:
        return None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None
