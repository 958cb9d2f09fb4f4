"""Finds texts that look like a key or a password, to remove them before a text is logged, shown or stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from schemas import codec
from tasks.text.fields import Cut, fit, one_line
from tasks.text.json_in_prose import as_text

MARK = "[secret]"
MIXED = 12  # different characters of a key
SHORTEST = 6  # a shorter word is hardly a secret, and is part of many other texts

_WHOLE = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"  # JSON web tokens
    r"|\b(?:(?:sk|sess|glpat|xox[abeprs])-|[spr]k_(?:live|test)_)[A-Za-z0-9_-]{16,}|\bhf_[A-Za-z0-9]{16,}"
    r"|\bpk_[A-Za-z0-9]{1,32}_[0-9a-f]{40,}|\bwhsec_[A-Za-z0-9+/=]{16,}"  # keys and endpoints of the planner
    r"|\b(?:gh[pousr]|github_pat)_\w{20,}|\bA(?:KIA|SIA)[0-9A-Z]{16}\b|\bAIza[\w-]{30,}"
    r"|\bnpm_[A-Za-z0-9]{36}\b|\bpypi-AgE[\w-]{50,}|\bdop_v1_[0-9a-f]{64}\b|\bSG\.[\w-]{22}\.[\w-]{43}",
    re.DOTALL,
)
_NAME = (
    r"(?:api[_-]?key|access[_-]?key|token|secret|passw(?:or)?d|authorization)\\?[\"']?\s*[:=]\s*\\?[\"']?"
    r"(?:(?:bearer|basic)\s+)?+"
)
_VALUE = r"[^\s\"',;&}\\]"
_NAMED = re.compile(rf"({_NAME}|\b(?:bearer|basic)\s+)(?!\[secret\]){_VALUE}{{6,}}", re.IGNORECASE)
_SURELY = re.compile(  # "basic validation" and "token: required" are words of a plan
    rf"({_NAME}|\b(?:bearer|basic)\s+(?={_VALUE}{{16}}))(?!\[secret\])(?={_VALUE}{{0,200}}\d){_VALUE}{{8,}}",
    re.IGNORECASE,
)
_IN_URL = re.compile(r"(://[^\s/:@\"'\\]*:)[^\s/@\"'\\]+(?=@)")


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace the known `secrets` and everything that looks like a secret.

    This may break the format of the text, so the result is only for people.
    """
    return _NAMED.sub(rf"\1{MARK}", mask(text, secrets))


def fit_redacted(text: str, size: int, secrets: Iterable[str] = (), cut: Cut = one_line) -> str:
    """Fit outside words into `size` characters, without secrets and without attacks."""
    known = tuple(secrets)
    return fit(redact(text, known), size, lambda found, most: cut(redact(found, known), most))


def mask(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace the known `secrets` and everything that is certainly a secret.

    Programs can still use the result: JSON stays valid.
    """
    known = {each for each in secrets if len(each) >= SHORTEST}
    in_json = {codec.dumps(each.encode(errors="replace").decode()).decode()[1:-1] for each in known}
    if spellings := sorted(known | in_json, key=len, reverse=True):
        text = re.sub("|".join(map(re.escape, spellings)), MARK, text)
    return _SURELY.sub(rf"\1{MARK}", _IN_URL.sub(rf"\1{MARK}", _WHOLE.sub(MARK, text)))


def tokens(text: str) -> Iterator[str]:
    """Yield the texts that have the form of a provider's key, but no examples of keys.

    Examples contain the word EXAMPLE, no digit, or few different characters. The header of a private key is no key if
    no key follows, as in code that reads such files.
    """
    for found in _WHOLE.finditer(text):
        kept = re.sub(r"-----[A-Z ]*-----?|\s", "", found[0])
        if "EXAMPLE" not in kept.upper() and len(set(kept)) >= MIXED and any(each.isdigit() for each in kept):
            yield found[0]


def hold_back(output: Any) -> tuple[Any, str]:
    """Return an answer and its text, both without texts that are certainly secrets.

    If the answer contained a secret, its text takes its place.
    """
    text = as_text(output)
    safe = mask(text)
    return (output if safe == text else safe), safe
