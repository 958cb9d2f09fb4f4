"""Reads the message of an entry, or returns the problem that dead-letters it. Sizes are checked first."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails, to_json

from schemas import codec
from schemas.base import GoalKind, unknown_fields
from schemas.command import Command, Scope
from schemas.envelope import FieldError, Problem, field_error
from schemas.goal import MAX_GOAL_BYTES, Goal
from schemas.outcome import MAX_OUTCOME_BYTES, MAX_OUTPUT_BYTES, Outcome
from schemas.plain_outcome import NOT_PLAIN, decode_plain
from schemas.wording import expected
from tasks.handlers.commands import SCOPES
from tasks.plan.report import PlainReport, Report
from worker.store.keys import NO_TENANT, PLAN_ID
from worker.streams.inbox import StreamEntry

GOAL_ID = re.compile(r"[^\s\x00-\x1f\x7f]{1,200}")  # as schemas.base.GoalId
NAME = re.compile(r".{1,200}", re.DOTALL)  # as schemas.base.Name
ATTEMPT = re.compile(r"[1-9][0-9]{0,6}")
MAX_COMMAND_BYTES = 64 * 1024
MAX_ERRORS = 50
MAX_PLAIN_BYTES = 16 * 1024
PLAIN_IDS = re.compile(PLAN_ID.pattern + r"/[a-z0-9-]{1,64}")  # as schemas.base.StepId

NAMED_BY = {
    Scope.STEP: ("plan_id", "step_id"),
    Scope.PLAN: ("plan_id",),
    Scope.REPOSITORY: ("target",),
    Scope.TENANT: ("target",),
    Scope.QUEUE: ("target",),
    Scope.ALL: (),
}


def read_plain_outcome(entry: StreamEntry) -> PlainReport | None:
    """Return an outcome in the usual strict form; None if `read_outcome` has to read it."""
    data = entry.fields.get(b"data")
    if data is None or len(data) > MAX_PLAIN_BYTES:
        return None
    try:
        said = decode_plain(data)
    except NOT_PLAIN:
        return None
    if not (said.success and PLAIN_IDS.fullmatch(f"{said.plan_id}/{said.step_id}")):
        return None
    raw = data.replace(b"\n", b" ").replace(b"\r", b" ")  # JSON has line ends between values alone
    return PlainReport(said, raw, blake2b(raw, digest_size=9).hexdigest(), entry.entry_id.decode())


def read_outcome(entry: StreamEntry) -> tuple[str, Report] | Problem:
    """Return the plan and the report of an outcome, or the problem of an unreadable one."""
    data = entry.data
    if data is None:
        return NO_DATA
    if len(data) > MAX_OUTCOME_BYTES:
        return _too_large("outcome_too_large", len(data), MAX_OUTCOME_BYTES)
    try:
        outcome, unknown, kept = _outcome(data)
    except (ValidationError, codec.DecodeError) as error:
        return _not_json_or_unfit(error)
    if len(data) > MAX_OUTPUT_BYTES and (size := len(to_json(outcome.output))) > MAX_OUTPUT_BYTES:
        return _too_large("output_too_large", size, MAX_OUTPUT_BYTES, "/output")
    plan_id = outcome.plan_id or entry.field("plan_id")
    if plan_id is None or not PLAN_ID.fullmatch(plan_id):
        detail = "An outcome must name its plan, in `plan_id` or in the entry's field of that name."
        return Problem.of("missing_plan_id", detail)
    attempt = outcome.attempt
    if attempt is None and (beside := entry.field("attempt")) is not None:
        if not ATTEMPT.fullmatch(beside):
            return Problem.of("invalid_message", f"The entry's field `attempt` is no attempt: {beside[:20]!r}.")
        attempt = int(beside)
    lease = outcome.lease or entry.field("lease")
    raw, entry_id = kept.replace(b"\n", b" ").replace(b"\r", b" "), entry.entry_id.decode()
    digest = blake2b(raw, digest_size=9).hexdigest()  # of the bytes in the log, so that it can be computed again
    return plan_id, Report(outcome, attempt, lease, raw, digest, unknown, entry_id)


def _outcome(data: bytes) -> tuple[Outcome, int, bytes]:
    """Return an outcome, the number of its unknown fields, and the bytes to store, which are usually `data`.

    If a number in `data` is larger than a double, it is replaced: not every JSON reader accepts such a number. Raises
    ValidationError or DecodeError.
    """
    try:
        outcome = Outcome.model_validate_json(data)
    except ValidationError:
        if (kept := _bounded(data)) is None:
            raise
        outcome = Outcome.model_validate_json(kept)
        return outcome, unknown_fields(outcome), kept
    unknown = unknown_fields(outcome)
    if not unknown and outcome.output is None:
        return outcome, 0, data
    kept = _bounded(data) or data
    if outcome.output is not None:  # as a reader of the plan's log will read it: numbers of 64 bits, else doubles
        outcome = outcome.model_copy(update={"output": codec.loads(kept)["output"]})
    return outcome, unknown, kept


def _bounded(data: bytes) -> bytes | None:
    """Return the JSON of an outcome with its too large numbers replaced; None if it has none. Raises DecodeError."""
    try:
        codec.loads(data)
    except codec.DecodeError:
        body = codec.load_bounded(data)
        if body is None:
            raise
        return codec.dumps(body)
    return None


def read_goal(entry: StreamEntry, max_bytes: int, *, strict: bool = False) -> tuple[Goal, str] | Problem:
    """Return a goal with the digest of its body, or the problem of an unreadable one.

    With `strict` a value must have its type; otherwise "5" is a number, too. The inputs of kinds, which agents write,
    are exempt.
    """
    data = entry.data
    if data is None:
        return NO_DATA
    if len(data) > max_bytes:
        return _too_large("goal_too_large", len(data), max_bytes)
    try:
        body = codec.loads(data)
        goal = _read_strictly(data, body) if strict else Goal.model_validate(body)
    except (ValidationError, codec.DecodeError) as error:
        return _not_json_or_unfit(error)
    if isinstance(goal, Problem):
        return goal
    if len(data) > MAX_GOAL_BYTES and goal.steps is None and goal.evolution is None:
        return _too_large("goal_too_large", len(data), MAX_GOAL_BYTES)
    try:
        # The same goal, sent again, may belong to another trace.
        canonical = codec.canonical({name: value for name, value in body.items() if name != "traceparent"})
    except codec.EncodeError as error:
        return _not_encodable(error)
    return goal, blake2b(canonical, digest_size=16).hexdigest()


def _read_strictly(data: bytes, body: Any) -> Goal | Problem:
    """Return a goal, or the problem with its wrong types. The input of a kind is read by the lax rules.

    5.0 counts as an integer. Raises ValidationError if only the lax rules find an error.
    """
    try:
        return Goal.model_validate_json(data, strict=True)
    except ValidationError as error:
        strict = error.errors(include_url=False, include_context=False)
    found = [
        each
        for each in strict
        if not _of_kind(each) and not (each["type"] == "int_type" and type(each["input"]) is float)
    ]
    goal = None
    try:
        goal = Goal.model_validate(body)
    except ValidationError as error:
        found += [each for each in _details(error) if _of_kind(each) or each["type"] == "int_from_float"]
        if not found:
            raise
    return goal if goal and not found else _unfit(found)


def _of_kind(detail: ErrorDetails) -> bool:
    """Return whether an error is in a goal's field for the input of its kind, such as `campaign`."""
    return bool(detail["loc"]) and detail["loc"][0] in set(GoalKind)


def read_goal_name(entry: StreamEntry, max_bytes: int) -> tuple[str, str] | None:
    """Return the id and the tenant of an invalid goal; None without a readable id.

    Without a readable tenant, the default tenant is returned.
    """
    body: Any = {}
    if entry.data is not None and len(entry.data) <= max_bytes:
        with suppress(codec.DecodeError):
            body = codec.loads(entry.data)
    said = body if isinstance(body, dict) else {}
    goal_id, tenant = said.get("goal_id") or entry.field("id"), said.get("tenant")
    if not isinstance(goal_id, str) or not GOAL_ID.fullmatch(goal_id):
        return None
    return goal_id, tenant if isinstance(tenant, str) and NAME.fullmatch(tenant) else NO_TENANT


def read_command(entry: StreamEntry, *, strict: bool = False) -> Command | Problem:
    """Return an operator's command, or the problem of an invalid one.

    With `strict` a value must have its type. The scope of a command decides on the process that obeys it.
    """
    data = entry.data
    if data is None:
        return NO_DATA
    if len(data) > MAX_COMMAND_BYTES:
        return _too_large("command_too_large", len(data), MAX_COMMAND_BYTES)
    try:
        body = codec.loads(data)
        command = Command.model_validate_json(data, strict=True) if strict else Command.model_validate(body)
        codec.canonical(body)
    except (ValidationError, codec.DecodeError) as error:
        return _not_json_or_unfit(error)
    except codec.EncodeError as error:
        return _not_encodable(error)
    if command.scope not in SCOPES[command.command]:
        known = ", ".join(sorted(SCOPES[command.command]))
        detail = f"`{command.command}` reaches {known}, not `{command.scope}`."
        return Problem.of("unsupported_scope", detail, (field_error("/scope", "unsupported_scope", detail),))
    for name in NAMED_BY[command.scope]:
        if getattr(command, name) is None:
            detail = f"An order of scope `{command.scope}` names its `{name}`."
            return Problem.of("invalid_message", detail, (field_error(f"/{name}", "missing", detail),))
    return command


def _not_json_or_unfit(error: ValidationError | codec.DecodeError) -> Problem:
    """Return the problem of a message: it is no JSON, or some fields are invalid."""
    if isinstance(error, codec.DecodeError):
        return Problem.of("invalid_json", f"Not JSON: {error}")
    details = _details(error)
    if any(detail["type"] == "json_invalid" for detail in details):
        return Problem.of("invalid_json", expected(details[0]))
    return _unfit(details)


def _details(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _unfit(details: list[ErrorDetails]) -> Problem:
    errors = []
    for detail in details[:MAX_ERRORS]:
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in detail["loc"])
        errors.append(FieldError(pointer=pointer, code=detail["type"], message=expected(detail)))
    return Problem.of("invalid_message", f"Fields that do not fit the contract: {len(details)}.", tuple(errors))


def _not_encodable(error: codec.EncodeError) -> Problem:
    """Return the problem of a message that cannot be stored: too deeply nested, or with too large numbers."""
    return Problem.of("invalid_json", f"Cannot be kept: {error}.")


def _too_large(code: str, size: int, limit: int, pointer: str = "") -> Problem:
    detail = f"{size} bytes, and the limit is {limit}."
    return Problem.of(code, detail, (FieldError(pointer=pointer, code=code, message=detail),), status=413)


NO_DATA = Problem.of("no_data", "The entry has no field `data`, where the message belongs.")
