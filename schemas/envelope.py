"""The fields of a stream entry next to `data`, and the form of problems (RFC 9457; CloudEvents 1.0)."""

from __future__ import annotations

from pydantic import Field

from schemas.base import Record

ERRORS_PAGE = "/errors"  # docs/errors.md, which a gateway serves at this path
DATA = b"data"


class FieldError(Record):
    """One error: its place (JSON pointer, RFC 6901), its rule, and a sentence."""

    pointer: str
    code: str
    message: str


def field_error(pointer: str, code: str, message: str) -> FieldError:
    """Make a FieldError from positional arguments."""
    return FieldError(pointer=pointer, code=code, message=message)


class Problem(Record):
    """An RFC 9457 problem object; the same in dead entries, rejections and `--json` errors."""

    type: str
    title: str
    code: str
    detail: str
    status: int = 422
    instance: str | None = None
    errors: tuple[FieldError, ...] = Field(default=())

    @classmethod
    def of(cls, code: str, detail: str, errors: tuple[FieldError, ...] = (), status: int = 422) -> Problem:
        """Return the problem `code`; its title is the code as words."""
        title = code.replace("_", " ").capitalize()
        return cls(type=f"{ERRORS_PAGE}#{code}", title=title, code=code, detail=detail, errors=errors, status=status)


class DeadEntry(Record):
    """The field `problem` of a dead entry; the field `data` has the raw bytes.

    The entry's other fields are kept as `entry.<name>`. `whole` is true if the whole entry is kept.
    """

    problem: Problem
    stream: str
    entry: str
    size: int
    at: str
    whole: bool
