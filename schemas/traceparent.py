"""The `traceparent` of W3C Trace Context: the trace of a message, and its parent in that trace."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

from schemas.text_kinds import TextKind

LENGTH = 55  # of the form that version 00 has, and that later versions begin with
FORM = re.compile(r"(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32})-((?!0{16})[0-9a-f]{16})-([0-9a-f]{2})")


def read_traceparent(said: Any) -> str | None:
    """Return a traceparent in the form of version 00; None for any other value, of any length.

    No message is refused because of its traceparent.
    """
    if not isinstance(said, str) or not (found := FORM.match(said)):
        return None
    rest = said[LENGTH : LENGTH + 1]
    if rest and (found[1] == "00" or rest != "-"):  # only later versions may have more
        return None
    return f"00-{found[2]}-{found[3]}-{found[4]}"


def trace_id_of(traceparent: str) -> str:
    """Return the id of the trace in a traceparent that was read."""
    return traceparent[3:35]


Traceparent = Annotated[str | None, BeforeValidator(read_traceparent), TextKind.KEY]
