"""What a failure log says there is to repair, by the signs of each language.

The log is untrusted and at most as long as a goal: it only chooses among our templates. Patterns stay within a line
and have no nested repetition, so that reading is linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from tasks.toolchain.languages import TOOLCHAINS


class LogSign(StrEnum):
    """What a log tells; each chooses a template of repair goals."""

    NONE = "none"  # there is no log
    REPAIRABLE = "repairable"
    BUILD = "build"
    DEPENDENCY = "dependency"
    SILENT = "silent"  # a log that says nothing


_SIGNS = tuple(each.signs for each in TOOLCHAINS)
_BUILD = r"\bcompilation (?:terminated|failed)\b|\bbuild failed\b|\bcompiler error\b"
_FAILING = (
    r"\b[A-Z]\w*(?:Error|Exception)\b|^FAIL(?:ED)?\b|\bassert(?:ion)?\b.{0,80}\bfailed\b|\btimed out\b"
    r"|\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?)\b|\bexpected\b.{0,200}\b(?:got|received|actual)\b"
)


def _any(*alternatives: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    return re.compile("|".join(filter(None, alternatives)), flags)


_IS_DEPENDENCY = _any(*(each.dependency for each in _SIGNS), flags=re.I)
_MISSING_MODULE = _any(*(each.missing_module for each in _SIGNS))
_IS_BUILD = _any(_BUILD, *(each.build for each in _SIGNS), flags=re.I | re.M)
_IS_FAILING = _any(_FAILING, *(each.failing for each in _SIGNS), flags=re.M)


def read_log(log: str, files: Sequence[str] = ()) -> LogSign:
    """Say what `log` shows.

    `files` of the repository tell a module of its own from a missing dependency.
    """
    if not log.strip():
        return LogSign.NONE
    if _IS_DEPENDENCY.search(log) or _misses_foreign_module(log, files):
        return LogSign.DEPENDENCY
    if _IS_BUILD.search(log):
        return LogSign.BUILD
    return LogSign.REPAIRABLE if _IS_FAILING.search(log) else LogSign.SILENT


def _misses_foreign_module(log: str, files: Sequence[str]) -> bool:
    missing = {found[found.lastindex or 0] for found in _MISSING_MODULE.finditer(log)}
    if not missing:
        return False
    own = {part.split(".")[0] for path in files for part in path.split("/")}
    return not missing & own
