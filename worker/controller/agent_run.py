"""Runs an agent once: gives it its input, and reads its answer, or the reason why it failed or could not work."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

from schemas import codec
from schemas.base import Mode
from schemas.contract.strict import strict_form
from schemas.outcome import MAX_OUTPUT_BYTES, Needs, ReleaseKind
from tasks.text.blocked_report import blocked_report
from worker.agents.agent import Agent, WrongAgent
from worker.agents.readers import NOTHING, Reading
from worker.controller import wire
from worker.controller.given_data import given_data
from worker.controller.instructions import NONE, Instructions
from worker.controller.needs import needs_of, words_after
from worker.controller.prompt import places, prompt, quote_instructions
from worker.controller.readiness import CannotWork, ProviderTrouble
from worker.controller.wire import MESSAGE_CHARS, AttemptFailure, Spec
from worker.sandbox.process import JobResult

AgentRun = Callable[[Sequence[str], float, bytes], JobResult]  # an argv, a time limit in seconds, and standard input

NOT_STARTED = (126, 127)  # exit codes of a shell, and of our launcher
PROVIDER = 75  # EX_TEMPFAIL of sysexits.h: an agent that reads the spec reports trouble of its provider
SHOWN_DENIED = 5


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The result of an agent's run, without changed files and tests: git and the verification report them."""

    reading: Reading = field(default_factory=Reading)
    output: Any = None
    nothing_to_change: str | None = None  # the reason, if the agent reports one
    needs: Needs | None = None  # further files, if the agent asks for some
    blocked: str | None = None  # why the change cannot be made, if the agent reports that
    failure: AttemptFailure | None = None
    trouble: CannotWork | None = None  # the reason if the agent could not work; no failure
    agent: str | None = None
    model: str | None = None  # by the options of its command


MODEL_CHARS = 100
NO_AGENT_NEEDED = AgentReport(Reading(tokens_used=0, patch_cycles=0, tool_calls=0))


def ask_agent(
    agent: Agent | None,
    spec: Spec,
    raw: bytes,
    run: AgentRun,
    timeout_s: float,
    *,
    confined: bool,
    known: Sequence[tuple[str, str]] = (),
    instructions: Instructions = NONE,
) -> AgentReport:
    """Run the agent for the step `spec`, and return its report. Raises the errors of `run`.

    `raw` is the spec as it was received. `known` are titles and texts that this host adds to it. `instructions` are the
    repository's own.
    """
    if agent is None:
        return AgentReport(failure=wire.advice("this controller has no agent command"))
    try:
        argv, given = _told(agent, spec, raw, known, instructions, confined=confined)
    except WrongAgent as error:
        return AgentReport(failure=wire.advice(str(error)))
    done = run(argv, timeout_s, given)
    reading = agent.read(done.stdout)
    output = _output(reading.answer, whole=spec.asks or reading.is_reported)
    report = AgentReport(
        reading=reading,
        output=output,
        nothing_to_change=reading.nothing_to_change or _no_need(output),
        needs=needs_of(reading.needs or output) if spec.mode is Mode.PATCH else None,
        blocked=_blocked(output) if spec.mode is Mode.PATCH else None,
        failure=_failure(done, reading, timeout_s),
        trouble=_trouble(agent, done, reading),
        agent=agent.name,
        model=_model(argv),
    )
    if report.failure or report.trouble or len(codec.dumps(output)) <= MAX_OUTPUT_BYTES:
        return report
    failure = wire.advice(f"the output is larger than {MAX_OUTPUT_BYTES} bytes: make it shorter")
    return AgentReport(reading, failure=failure)


def _model(argv: Sequence[str]) -> str | None:
    """Return the model that a command names by `--model` or `-m`."""
    named = (word for option, word in pairwise(argv) if option in ("--model", "-m"))
    joined = (word.partition("=")[2] for word in argv if word.startswith("--model="))
    return next((word[:MODEL_CHARS] for word in chain(named, joined) if word.isprintable() and word), None)


def _told(
    agent: Agent,
    spec: Spec,
    raw: bytes,
    known: Sequence[tuple[str, str]],
    instructions: Instructions,
    *,
    confined: bool,
) -> tuple[list[str], bytes]:
    """Return the command of the agent, and the content of its standard input."""
    text = "" if agent.stdin == "spec" else prompt(spec, agent.prompt, known, instructions)
    given = spec.input if isinstance(spec.input, dict) else {}
    asked = given.get("schema")
    strict = given.get("strict_schema") or (strict_form(asked) if isinstance(asked, dict) else None) or asked
    argv = agent.command(
        patches=spec.mode is Mode.PATCH,
        confined=confined,
        prompt=text,
        schema=codec.dumps(asked).decode() if asked else None,
        strict=codec.dumps(strict).decode() if asked else None,
        checks=[shlex.join(tool.argv) for tool in spec.verify_tools],
    )
    if agent.stdin != "spec":
        return argv, text.encode() if agent.stdin == "prompt" else b""
    data = given_data(spec.context, *places(spec), *known, *quote_instructions(instructions))
    if not data:
        return argv, raw
    about = {"trust": instructions.trust.value, "files": instructions.files, "digest": instructions.digest}
    return argv, codec.extend(raw.rstrip(), {"data": data, **({"instructions": about} if instructions else {})})


def _output(answer: Any, *, whole: bool) -> Any:
    """Return the answer, truncated if it is a text that need not be `whole`."""
    if whole or not isinstance(answer, str):
        return answer
    return answer.encode()[: MAX_OUTPUT_BYTES // 2].decode(errors="ignore")


def _no_need(output: Any) -> str | None:
    if isinstance(output, dict) and isinstance(why := output.get("nothing_to_change"), str):
        return why.strip()[:MESSAGE_CHARS] or None
    why = words_after(NOTHING, output)
    return None if why is None else why.strip()[:MESSAGE_CHARS]


def _blocked(output: Any) -> str | None:
    report = blocked_report(output)
    return report["reason"] if report else None


def _failure(done: JobResult, reading: Reading, timeout_s: float) -> AttemptFailure | None:
    if done.timed_out:
        return wire.agent_timeout(timeout_s, done.stderr[-MESSAGE_CHARS:])
    if reading.error:
        return wire.agent_failure(reading.error.message or reading.error.kind, reading.suggestion)
    if not done.exit_code:
        return None
    tail = done.stderr[-MESSAGE_CHARS:].strip() or f"the agent ended with exit code {done.exit_code}"
    return wire.agent_failure(tail, reading.suggestion)


def denied(reading: Reading) -> str:
    """Return a sentence with the actions that the agent was not allowed to do."""
    return f"not allowed to the agent: {'; '.join(reading.denied[:SHOWN_DENIED])}"


def _trouble(agent: Agent, done: JobResult, reading: Reading) -> CannotWork | None:
    """Return the reason why the agent could not work, from its report or its exit code; None if it could."""
    if reading.released:
        is_of_provider = reading.released_kind == ReleaseKind.PROVIDER
        return ProviderTrouble(reading.released) if is_of_provider else CannotWork(reading.released)
    if reading.error and agent.trouble.has(reading.error):
        return ProviderTrouble(f"{agent.name}: {reading.error.message or reading.error.kind}")
    if done.timed_out or not done.exit_code:
        return None
    tail = done.stderr[-MESSAGE_CHARS:].strip()
    if done.exit_code in NOT_STARTED or not reading.has_begun:
        return CannotWork(f"the agent could not be started: {tail or f'exit code {done.exit_code}'}")
    if done.exit_code == PROVIDER and agent.stdin == "spec":
        return ProviderTrouble(tail or f"the agent ended with exit code {PROVIDER}")
    return None
