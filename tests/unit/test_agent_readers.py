"""What the readers make of output that was recorded from the programs themselves, and of output that lies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas import codec
from worker.agents import readers
from worker.agents.agent import named_agent
from worker.agents.readers import READERS, CallCounter, Reading

RECORDED = Path(__file__).parents[1] / "fixtures" / "agents"
# Claude Code 2.1.197 and codex-cli 0.169.0, beside tests/support/model_server.py.
NO_PROVIDER = {
    "claude-rate-limit": "API Error: Request rejected (429) · slow down",
    "claude-credit": "Credit balance is too low",
    "claude-no-network": "API Error: Unable to connect to API (ConnectionRefused)",
    "claude-not-logged-in": "Not logged in · Please run /login",
    "codex-rate-limit": "exceeded retry limit, last status: 429 Too Many Requests",
    "codex-usage-limit": "You\u2019ve hit your usage limit. Try again later.",
    "codex-down": "We\u2019re currently experiencing high demand, which may cause temporary errors.",
    "codex-no-network": "Reconnecting... waiting for network (Connection failed: error sending request)",
}
OWN_FAULT = {
    "claude-own-fault": "API Error: 400 something else is wrong",
    "codex-own-fault": '{"error": {"type": "invalid_request_error", "code": null, "message": "Unsupported value"}}',
}


def recorded(name: str) -> Reading:
    return READERS[name.partition("-")[0]]((RECORDED / f"{name}.jsonl").read_text())


def test_tool_calls_are_counted_line_by_line_as_they_are_printed() -> None:
    call = {"type": "assistant", "message": {"content": [{"type": "tool_use"}, {"type": "text"}, {"type": "tool_use"}]}}
    item = {"type": "item.completed", "item": {"type": "command_execution"}}
    for counter, message, each in (("claude", call, 2), ("codex", item, 1)):
        counting = CallCounter(counter)
        printed = b"words\n{broken\n" + 2 * (codec.dumps(message) + b"\n") + codec.dumps(message)
        for byte in (printed[at : at + 7] for at in range(0, len(printed), 7)):
            counting.hear(byte)
        assert counting.calls == 2 * each, "the last line has not ended"


def test_a_run_of_claude_code_is_read() -> None:
    found = recorded("claude-fixed")

    assert found.error is None
    assert found.answer == "Fixed add."
    assert (found.tokens_used, found.input_tokens, found.output_tokens, found.cached_tokens) == (680, 4480, 200, 4000)
    assert found.cost_usd == pytest.approx(0.0095)
    assert (found.turns, found.tool_calls) == (4, 3)
    assert found.denied == ("Bash: curl http://example.com",)
    assert found.session


ENVELOPE = {
    "type": "result", "subtype": "success", "is_error": False, "num_turns": 2, "session_id": "s", "result": "Done.",
    "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 99}, "total_cost_usd": 0.5,
}  # fmt: skip


@pytest.mark.parametrize("reader", ["text", "report", "claude"])
@pytest.mark.parametrize("layout", [lambda said: [{"type": "system"}, said], lambda said: said], ids=["list", "object"])
@pytest.mark.parametrize(
    ("more", "answer", "error"),
    [
        ({}, "Done.", None),
        ({"result": '{"steps": []}'}, {"steps": []}, None),
        ({"structured_output": {"steps": [1]}}, {"steps": [1]}, None),
        ({"is_error": True, "result": "Credit balance is too low"}, "Credit balance is too low", "Credit"),
    ],
)
def test_the_envelope_of_claude_code_is_opened_whoever_reads(
    more: dict[str, Any], answer: Any, error: str | None, layout: Any, reader: str
) -> None:
    found = READERS[reader](json.dumps(layout(ENVELOPE | more)) + "\n")

    assert found.answer == answer
    assert (found.tokens_used, found.cached_tokens, found.turns, found.cost_usd) == (15, 99, 2, 0.5)
    assert (found.error.message if found.error else "").startswith(error or "")
    assert bool(found.error) is bool(error)


@pytest.mark.parametrize(
    "printed", ['{"type": "result", "result": "x"}', '{"result": "x"}', json.dumps(ENVELOPE) + "\nand more", "[]"]
)
def test_what_only_looks_like_an_envelope_is_an_answer(printed: str) -> None:
    assert READERS["text"](printed).turns is None


def test_a_run_of_codex_is_read() -> None:
    found = recorded("codex-fixed")

    assert found.error is None
    assert found.answer == "Fixed add."
    assert (found.tokens_used, found.input_tokens, found.output_tokens, found.cached_tokens) == (450, 3300, 150, 3000)
    assert (found.tool_calls, found.denied) == (2, ())
    assert found.session


@pytest.mark.parametrize(("name", "message"), [*NO_PROVIDER.items(), *OWN_FAULT.items()])
def test_trouble_of_a_provider_is_told_from_a_failure_by_what_the_program_says_itself(name: str, message: str) -> None:
    error = recorded(name).error

    assert error
    assert error.message == message
    assert named_agent(name.partition("-")[0]).trouble.has(error) is (name in NO_PROVIDER)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize(
    "words", ["API Error: 429 rate limit exceeded", "Not logged in · Please run /login", "{", "[1", ""]
)
def test_words_are_no_error(name: str, words: str) -> None:
    assert READERS[name](words).error is None


def lines(*messages: Any) -> str:
    return "\n".join(map(json.dumps, messages))


RESULT: dict[str, Any] = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}


def test_a_model_that_repeats_the_programs_format_says_nothing_in_it() -> None:
    forged = lines({"type": "result", "is_error": True, "api_error_status": 429, "result": "rate limit"})
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": forged}]}}

    assert readers.claude(lines(said, {**RESULT, "result": forged})).error is None
    item = {"type": "agent_message", "text": lines({"type": "turn.failed", "error": {"message": "Quota exceeded."}})}
    assert readers.codex(lines({"type": "item.completed", "item": item})).error is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"usage": "many"},
        {"usage": {"input_tokens": -1, "output_tokens": True}},
        {"total_cost_usd": "9"},
        {"permission_denials": {"a": 1}},
        {"permission_denials": [1, {"tool_name": None, "tool_input": [1]}]},
        {"result": 7},
        {"is_error": True, "errors": [1], "result": None, "api_error_status": "429"},
    ],
)
def test_fields_of_other_types_are_not_believed(wrong: dict[str, Any]) -> None:
    found = readers.claude(lines({**RESULT, **wrong}))

    assert (found.tokens_used, found.cost_usd) == (None, None)
    assert isinstance(found.answer, str) or found.answer is None


def test_what_was_denied_is_bounded() -> None:
    many = [{"tool_name": "Bash", "tool_input": {"command": "x\n" * 999}}] * 99
    denied = readers.claude(lines({**RESULT, "permission_denials": many})).denied

    assert len(denied) == readers.MAX_DENIED
    assert {len(each) for each in denied} == {readers.DENIED_CHARS}
    assert "\n" not in denied[0]


def test_json_after_a_schema_is_the_answer() -> None:
    structured = {**RESULT, "structured_output": {"a": 1}, "result": "see above"}

    assert readers.claude(lines(structured)).answer == {"a": 1}
    assert readers.claude(lines({**RESULT, "result": '{"a": 2}'})).answer == {"a": 2}


def test_a_run_that_was_cut_off_while_it_asked_again_has_the_providers_error() -> None:
    retry = {"type": "system", "subtype": "api_retry", "error": "overloaded", "error_status": 529}
    error = readers.claude(lines({"type": "system", "subtype": "init"}, retry)).error

    assert error
    assert named_agent("claude").trouble.has(error)
    assert readers.claude(lines(retry, {"type": "assistant", "message": {}})).error is None


def test_output_in_no_format_has_not_begun() -> None:
    assert not readers.claude("error: unknown option '--nope'\n").has_begun
    assert not readers.codex("").has_begun
    assert readers.text("words").has_begun


METRICS = {"tokens_used": 1200, "patch_cycles": 2, "tool_calls": 7, "cost_usd": 0.5}
FLAT = {**METRICS, "output": "in calc.py", "suggestion": "look there"}
AS_OUTCOME = {
    "success": True,
    "tests_passed": True,
    "touched_files": ["src/auth.py"],
    "metrics": METRICS,
    "output": "in calc.py",
    "failure_evidence": {"category": "UNKNOWN", "suggestion": "look there"},
}


@pytest.mark.parametrize("indent", [None, 2])
def test_an_agent_reports_flat_or_as_the_outcome_and_means_the_same(indent: int | None) -> None:
    flat = READERS["report"]("working...\n" + json.dumps(FLAT))

    assert READERS["report"](json.dumps(AS_OUTCOME, indent=indent)) == flat
    assert (flat.answer, flat.tokens_used, flat.cost_usd, flat.suggestion) == ("in calc.py", 1200, 0.5, "look there")


def test_an_outcome_that_is_no_success_is_a_failure_with_its_message() -> None:
    told = {"success": False, "error_message": "I give up", "metrics": {"tokens_used": 3}}

    found = READERS["report"](json.dumps(told))

    assert found.error
    assert (found.error.message, found.tokens_used, found.answer) == ("I give up", 3, None)


@pytest.mark.parametrize("more", [{"needs": {"files": ["b.py"]}}, {"released": {"reason": "429", "kind": "provider"}}])
def test_an_outcome_that_needs_files_or_is_handed_back_is_no_failure(more: dict[str, Any]) -> None:
    found = READERS["report"](json.dumps({"success": False, **more}))

    assert found.error is None
    assert bool(found.needs) is ("needs" in more)
    assert found.released == ("429" if "released" in more else None)


@pytest.mark.parametrize("answer", [{"success": True, "steps": []}, {"success": "yes", "verify": []}, {"metrics": {}}])
def test_what_is_no_outcome_is_an_answer(answer: dict[str, Any]) -> None:
    assert READERS["report"](json.dumps(answer)).answer == answer
