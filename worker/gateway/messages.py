"""Wire messages over HTTP: their ids, their JSON, and the refusal of invalid ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header

from schemas import codec
from schemas.envelope import FieldError, Problem, field_error
from worker.gateway.problems import Refusal

INVALID = "invalid_message"
REUSED = "idempotency_key_reused"
MAX_KEY = 200  # characters of an Idempotency-Key

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[!-~]+$",
        max_length=MAX_KEY,
        description="The id where the body has none: the same key and body are answered alike.",
    ),
]


def read_json(raw: bytes) -> Any:
    """Parse a body. Raises Refusal 400."""
    try:
        return codec.loads(raw)
    except codec.DecodeError as error:
        raise Refusal("invalid_json", f"The body is no JSON: {error}", 400) from error


def wrong(pointer: str, message: str) -> Refusal:
    """Return the refusal of a message whose field at `pointer` has a wrong value."""
    return Refusal(INVALID, message, errors=[field_error(pointer, "wrong_value", message)])


def refusal_of(problem: Problem, before: str = "") -> Refusal:
    """Return the refusal of a message that has this problem; `before` is put in front of each error's pointer."""
    errors = [
        FieldError(pointer=before + each.pointer, code=each.code, message=each.message) for each in problem.errors
    ]
    return Refusal(problem.code, problem.detail, 400 if problem.code == "invalid_json" else problem.status, errors)


def id_of_key(key: str | None) -> str | None:
    """Return the id in an Idempotency-Key, without the quotes that some clients send."""
    return key[1:-1] if key and len(key) > len('""') and key[0] == key[-1] == '"' else key


def reused() -> Refusal:
    """Return the refusal of an Idempotency-Key that was used before with another body."""
    return Refusal(REUSED, "This Idempotency-Key was used with another body: take a new one.")
