"""One row of the tables of error codes."""

from __future__ import annotations

from typing import NamedTuple


class ErrorCode(NamedTuple):
    """Why a problem with this code is reported, and how to solve it; both are sentences in Markdown."""

    cause: str
    cure: str
