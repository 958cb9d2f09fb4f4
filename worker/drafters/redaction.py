"""Takes out of a text what looks like a key or a password, before it is logged, shown or kept."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = "[secret]"
SHORTEST = 6  # a shorter word is no secret worth the name, and stands in too many others

_WHOLE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
    r"|\b(?:sk|pk|rk|sess|glpat|xox[abeprs]|hf)[-_][A-Za-z0-9_-]{16,}"
    r"|\b(?:gh[pousr]|github_pat)_\w{20,}|\bA(?:KIA|SIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}",
    re.DOTALL,
)
_NAMED = re.compile(
    r"((?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|authorization)[\"']?\s*[:=]\s*[\"']?"
    r"(?:(?:bearer|basic)\s+)?+|\b(?:bearer|basic)\s+)(?!\[secret\])[^\s\"',;&}\\]{6,}",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace the known `secrets` and whatever looks like one."""
    for secret in sorted((each for each in secrets if len(each) >= SHORTEST), key=len, reverse=True):
        text = text.replace(secret, MARK)
    text = _IN_URL.sub(rf"\1{MARK}", _WHOLE.sub(MARK, text))
    return _NAMED.sub(rf"\1{MARK}", text)
