"""The codes of all problems (RFC 9457), each with its cause and its cure; `docs/errors.md` is made from them."""

from __future__ import annotations

from collections.abc import Mapping

from schemas.error_codes import commands, gateway, messages
from schemas.error_codes.entry import ErrorCode

SECTIONS: Mapping[str, Mapping[str, ErrorCode]] = {
    "Requests": gateway.CODES,
    "Messages": messages.CODES,
    "Commands": commands.CODES,
}
ERROR_CODES: Mapping[str, ErrorCode] = {code: entry for section in SECTIONS.values() for code, entry in section.items()}
