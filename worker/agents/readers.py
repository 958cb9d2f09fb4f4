"""Reads the output of an agent's program by its format: the answer, its cost, denied actions, and errors.

An error is only read from the format's own fields, never from texts of the model, the repository or a tool. A test of a
rate limiter prints "rate limit exceeded", too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas import codec
from schemas.outcome import Outcome, ReleaseKind

MOST = 10**12
MAX_TEXT = 4000  # characters of a reported sentence
MAX_DENIED = 20
MOST_OF_LINE = 8 * 1024 * 1024  # bytes that are kept of a line until it ends
DENIED_CHARS = 200
MAX_NAME, MAX_NUMBERS = 128, 100  # of an evaluation
REPORTED = frozenset(
    {
        *("tokens_used", "patch_cycles", "tool_calls", "output", "suggestion", "nothing_to_change", "released"),
        *("evaluation", "needs"),
    }
)
OUTCOME = frozenset(Outcome.model_fields) - {"success"}
NOTHING = "NOTHING TO CHANGE:"  # start of an answer that gives the reason
CODEX_TOOLS = frozenset({"command_execution", "file_change", "mcp_tool_call", "web_search"})


@dataclass(frozen=True, slots=True)
class AgentError:
    """A program's report on its failure; `kind` is its word for it, `status` the status of its provider's answer."""

    message: str
    kind: str = ""
    status: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a program's output; None for values that the program does not report.

    `input_tokens` include `cached_tokens`, which the provider read from its cache. `tokens_used` does not include them.
    """

    answer: Any = None
    is_reported: bool = False  # whether the program marked it as the answer, so that all of it counts
    has_begun: bool = True  # whether anything was printed in its format
    tokens_used: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    patch_cycles: int | None = None
    tool_calls: int | None = None
    turns: int | None = None
    session: str | None = None
    denied: tuple[str, ...] = ()  # actions that it tried and was not allowed to do
    suggestion: str | None = None
    nothing_to_change: str | None = None
    needs: Mapping[str, Any] | None = None  # a report with further files that it needs
    evaluation: Mapping[str, float] | None = None  # its measurements of the change
    released: str | None = None  # why it could not begin or continue, by its own report
    released_kind: str = ReleaseKind.PROVIDER  # the kind of that trouble
    error: AgentError | None = None


Reader = Callable[[str], Reading]


def text(stdout: str) -> Reading:
    """Return the whole output as the answer: JSON if it is an object or a list, else text.

    The envelope that Claude Code prints with `--output-format json` is opened.
    """
    return claude(stdout) if is_envelope(stdout) else Reading(answer=_answer(stdout))


def is_envelope(stdout: str) -> bool:
    """Return whether the output is Claude Code's envelope, or with `--verbose` a list that ends with it."""
    said = _json(stdout.strip())
    result = said[-1] if isinstance(said, list) and said else said
    return _is(result, "result") and isinstance(result.get("is_error"), bool) and "subtype" in result


def report(stdout: str) -> Reading:
    """Return the report on the last line of the output: flat fields, or an outcome as JSON.

    The outcome may also fill the whole output. Any other output is an answer, as `text` reads it.
    """
    last = _json(stdout.rstrip().rpartition("\n")[2])
    if not isinstance(last, dict):
        last = _json(stdout.strip())
        return _outcome(last) if _is_outcome(last) else text(stdout)
    if _is_outcome(last):
        return _outcome(last)
    return _flat(last) if last.keys() & REPORTED else text(stdout)


def _is_outcome(said: Any) -> bool:
    """Return whether a value is an outcome: it has a boolean `success`, alone or with another field of outcomes."""
    if not isinstance(said, dict) or not isinstance(said.get("success"), bool):
        return False
    return len(said) == 1 or not OUTCOME.isdisjoint(said)


def _outcome(said: Mapping[str, Any]) -> Reading:
    """Return the reading of an agent's outcome; its statements about files and tests are not used."""
    released, evidence, metrics = (
        found if isinstance(found := said.get(name), dict) else {}
        for name in ("released", "failure_evidence", "metrics")
    )
    found = _flat({"suggestion": evidence.get("suggestion"), **said, **metrics})
    if reason := _text(released.get("reason")):
        return replace(found, released=reason, released_kind=_text(released.get("kind")) or ReleaseKind.PROVIDER)
    if said["success"] or found.needs or found.released:
        return found
    told = _text(said.get("error_message")) or _text(evidence.get("stack_trace_head"))
    return replace(found, error=AgentError(told or "the agent reports that it failed"))


def _flat(said: Mapping[str, Any]) -> Reading:
    return Reading(
        answer=said.get("output"),
        is_reported=True,
        tokens_used=_count(said.get("tokens_used")),
        input_tokens=_count(said.get("input_tokens")),
        output_tokens=_count(said.get("output_tokens")),
        cached_tokens=_count(said.get("cached_tokens")),
        cost_usd=_cost(said.get("cost_usd")),
        patch_cycles=_count(said.get("patch_cycles")),
        tool_calls=_count(said.get("tool_calls")),
        suggestion=_text(said.get("suggestion")),
        nothing_to_change=_text(said.get("nothing_to_change")),
        released=_text(said.get("released")),
        evaluation=_numbers(said.get("evaluation")),
        needs=said if isinstance(said.get("needs"), dict) else None,
    )


def claude(stdout: str) -> Reading:
    """Return the reading of Claude Code's `--output-format json` or `stream-json`."""
    messages = list(_objects(stdout.strip()))
    calls, kind, retry = 0, "", None
    for message in messages:
        calls += claude_calls(message)
        if _is(message, "assistant"):
            kind = _text(message.get("error")) or ""
        retry = message if message.get("subtype") == "api_retry" else None
    result = messages[-1] if messages and _is(messages[-1], "result") else {}
    found = Reading(has_begun=bool(messages), tool_calls=calls or None, session=_text(_last(messages, "session_id")))
    if not result:
        return replace(found, error=_claude_retry(retry) if retry else None)
    usage = result.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    fresh = _sum(usage.get("input_tokens"), usage.get("cache_creation_input_tokens"))
    answer = result.get("structured_output")
    found = replace(
        found,
        answer=_answer(result.get("result")) if answer is None else answer,
        turns=_count(result.get("num_turns")),
        cost_usd=_cost(result.get("total_cost_usd")),
        denied=_denied(result.get("permission_denials")),
        error=_claude_error(result, kind) if result.get("is_error") else None,
    )
    return _with_tokens(found, fresh, _count(usage.get("cache_read_input_tokens")), usage.get("output_tokens"))


def claude_calls(message: Mapping[str, Any]) -> int:
    """Count the tool calls in one message of Claude Code."""
    said = message.get("message")
    content = said.get("content") if isinstance(said, dict) else None
    return sum(_is(block, "tool_use") for block in content) if isinstance(content, list) else 0


def _claude_error(result: Mapping[str, Any], kind: str) -> AgentError:
    errors = result.get("errors")
    told = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    subtype = _text(result.get("subtype")) or ""
    message = _text(result.get("result")) or told[:MAX_TEXT] or subtype
    return AgentError(message, kind or subtype, _count(result.get("api_error_status")))


def _claude_retry(message: Mapping[str, Any]) -> AgentError:
    kind, status = _text(message.get("error")) or "", _count(message.get("error_status"))
    return AgentError(f"the provider is asked again and again: {kind} {status or ''}".strip(), kind, status)


def _denied(denials: Any) -> tuple[str, ...]:
    found = [denial for denial in denials if isinstance(denial, dict)] if isinstance(denials, list) else []
    shown = (f"{denial.get('tool_name')}: {_words(denial.get('tool_input'))}" for denial in found[:MAX_DENIED])
    return tuple(" ".join(each.split())[:DENIED_CHARS] for each in shown)


def _words(given: Any) -> str:
    return " ".join(map(str, given.values())) if isinstance(given, dict) else ""


def codex(stdout: str) -> Reading:
    """Return the reading of `codex exec --json`; an error counts only if it is the last event."""
    found, fresh, cached, printed, calls = Reading(has_begun=False), None, None, None, 0
    denied: list[str] = []
    for event in _objects(stdout):
        found = replace(found, has_begun=True, error=_codex_error(event))
        item = event.get("item")
        if _is(event, "thread.started"):
            found = replace(found, session=_text(event.get("thread_id")))
        elif _is(event, "turn.completed") and isinstance(usage := event.get("usage"), dict):
            cached = _sum(cached, usage.get("cached_input_tokens"))
            fresh = _sum(fresh, usage.get("input_tokens"))
            printed = _sum(printed, usage.get("output_tokens"))
        elif _is(event, "item.completed") and isinstance(item, dict):
            calls += codex_calls(event)
            if _is(item, "agent_message"):
                found = replace(found, answer=_answer(item.get("text")))
            if item.get("status") == "declined" and len(denied) < MAX_DENIED:
                denied.append(str(item.get("command") or item.get("type"))[:DENIED_CHARS])
    found = replace(found, tool_calls=calls or None, denied=tuple(denied))
    return _with_tokens(found, None if fresh is None else max(0, fresh - (cached or 0)), cached, printed)


def codex_calls(event: Mapping[str, Any]) -> int:
    """Count the tool calls in one event of Codex: 1 for one that has ended."""
    item = event.get("item")
    return int(_is(event, "item.completed") and isinstance(item, dict) and item.get("type") in CODEX_TOOLS)


def _codex_error(event: Mapping[str, Any]) -> AgentError | None:
    told = event.get("error") if _is(event, "turn.failed") else event if _is(event, "error") else None
    return AgentError(_text(told.get("message")) or "", str(event["type"])) if isinstance(told, dict) else None


READERS: Mapping[str, Reader] = {"report": report, "text": text, "claude": claude, "codex": codex}
COUNTERS: Mapping[str, Callable[[Mapping[str, Any]], int]] = {"claude": claude_calls, "codex": codex_calls}


class CallCounter:
    """Counts the tool calls of an agent by the lines of JSON that it prints."""

    def __init__(self, counter: str) -> None:
        self._count = COUNTERS[counter]
        self._begun = b""  # of a line that has not ended
        self.calls = 0

    def hear(self, printed: bytes) -> None:
        """Count the calls in the next printed bytes; a line of more than `MOST_OF_LINE` bytes counts as none."""
        *lines, begun = (self._begun + printed).split(b"\n")
        self._begun = begun if len(begun) <= MOST_OF_LINE else b" "
        for line in lines:
            said = _json(line.decode(errors="replace")) if line.startswith(b"{") else None
            self.calls += self._count(said) if isinstance(said, dict) else 0


def _with_tokens(reading: Reading, fresh: int | None, cached: int | None, printed: Any) -> Reading:
    printed = _count(printed)
    return replace(
        reading,
        tokens_used=_sum(fresh, printed),
        input_tokens=_sum(fresh, cached),
        output_tokens=printed,
        cached_tokens=cached,
    )


def _objects(stdout: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in lines; a truncated line at the start is skipped."""
    for line in stdout.splitlines():
        said = _json(line) if line.startswith(("{", "[")) else None
        yield from (each for each in (said if isinstance(said, list) else [said]) if isinstance(each, dict))


def _last(messages: list[dict[str, Any]], name: str) -> Any:
    return messages[-1].get(name) if messages else None


def _is(value: Any, kind: str) -> bool:
    return isinstance(value, dict) and value.get("type") == kind


def _answer(printed: Any) -> Any:
    if not isinstance(printed, str):
        return None
    stripped = printed.strip()
    said = _json(stripped) if stripped.startswith(("{", "[")) else None
    return said if isinstance(said, dict | list) else stripped or None


def _json(line: str) -> Any:
    try:
        return codec.loads(line)
    except codec.DecodeError:
        return None


def _text(value: Any) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST else None


def _numbers(value: Any) -> dict[str, float] | None:
    found = value.items() if isinstance(value, dict) else ()
    numbers = {name: each for name, each in found if isinstance(each, int | float) and not isinstance(each, bool)}
    kept = {name: float(each) for name, each in numbers.items() if 0 < len(name) <= MAX_NAME and -MOST <= each <= MOST}
    return dict(list(kept.items())[:MAX_NUMBERS]) or None


def _cost(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST else None
    )


def _sum(*values: Any) -> int | None:
    known = [count for count in map(_count, values) if count is not None]
    return sum(known) if known else None
