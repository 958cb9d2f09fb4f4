"""Messages of the wire that come by HTTP: their ids, their JSON, and what is wrong with them."""

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
    """Read a body; raises Refusal 400."""
    try:
        return codec.loads(raw)
    except codec.DecodeError as error:
        raise Refusal("invalid_json", f"The body is no JSON: {error}", 400) from error


def wrong(pointer: str, message: str) -> Refusal:
    """Refuse a message for one of its fields."""
    return Refusal(INVALID, message, errors=[field_error(pointer, "wrong_value", message)])


def refusal_of(problem: Problem, before: str = "") -> Refusal:
    """Refuse a message for what reading it found; pointers begin with `before`."""
    errors = [
        FieldError(pointer=before + each.pointer, code=each.code, message=each.message) for each in problem.errors
    ]
    return Refusal(problem.code, problem.detail, 400 if problem.code == "invalid_json" else problem.status, errors)


def id_of_key(key: str | None) -> str | None:
    """Take the id out of an Idempotency-Key, which some write in quotes."""
    return key[1:-1] if key and len(key) > len('""') and key[0] == key[-1] == '"' else key


def reused() -> Refusal:
    """Refuse an Idempotency-Key that came with another body before."""
    return Refusal(REUSED, "This Idempotency-Key was used with another body: take a new one.")
