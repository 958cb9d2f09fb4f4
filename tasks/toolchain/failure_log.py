"""What a failure log says there is to repair, by the tools' own patterns (spec 2.1 "Repair sub-routing", 4.2).

The log is untrusted and at most as long as a goal: it only chooses among our templates. Patterns stay within a line
and have no nested repetition, so that reading is linear.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum


class LogSign(StrEnum):
    """What the log tells."""

    NONE = "none"  # there is no log
    REPAIRABLE = "repairable"
    BUILD = "build"
    DEPENDENCY = "dependency"
    SILENT = "silent"  # a log that says nothing


_DEPENDENCY = re.compile(
    r"\bResolutionImpossible\b|\bVersionConflict\b|\bERESOLVE\b|\bresolution-too-deep\b"
    r"|could not find a version that satisfies|no matching distribution found|conflicting dependencies"
    r"|failed to select a version for|missing go\.sum entry|no required module provides package"
    r"|cannot find module providing package|incompatible peer dependenc|no solution found when resolving",
    re.I,
)
_MISSING_MODULE = re.compile(r"No module named ['\"]?([A-Za-z_]\w*)|Cannot find (?:module|package) '([@\w][^'./]*)")
_BUILD = re.compile(
    r"\bundefined reference to\b|\bld returned \d+ exit status|\blinker command failed|error: linking with"
    r"|^CMake Error\b|^(?:g?make|ninja)(?:\[\d+\])?: \*\*\*|^ninja: build stopped|\bcould not compile `"
    r"|\berror\[E\d{4}\]|\bcompilation (?:terminated|failed)\b|\bfatal error: .{1,200}: No such file"
    r"|\berror TS\d{4}\b|\bbuild failed\b|\[build failed\]|\bBUILD FAILED\b|\bcompiler error\b",
    re.I | re.M,
)
_REPAIRABLE = re.compile(
    r"\b[A-Z]\w*(?:Error|Exception)\b|^E   |\bTraceback \(most recent call last\)|^FAIL(?:ED)?\b|^[ \t]*--- FAIL:"
    r"|\bpanicked at\b|^panic: |^[ \t]*[✕✗●] |\bassert(?:ion)?\b.{0,80}\bfailed\b|\bSegmentation fault\b|\btimed out\b"
    r"|\bcontext deadline exceeded\b|\b[1-9]\d* (?:tests? )?(?:failed|failing|failures?)\b"
    r"|\bexpected\b.{0,200}\b(?:got|received|actual)\b",
    re.M,
)


def read_log(log: str, files: Sequence[str] = ()) -> LogSign:
    """Say what `log` shows; `files` of the repository tell a module of its own from a missing dependency."""
    if not log.strip():
        return LogSign.NONE
    if _DEPENDENCY.search(log) or _misses_foreign_module(log, files):
        return LogSign.DEPENDENCY
    if _BUILD.search(log):
        return LogSign.BUILD
    return LogSign.REPAIRABLE if _REPAIRABLE.search(log) else LogSign.SILENT


def _misses_foreign_module(log: str, files: Sequence[str]) -> bool:
    missing = {found[1] or found[2] for found in _MISSING_MODULE.finditer(log)}
    if not missing:
        return False
    own = {part.split(".")[0] for path in files for part in path.split("/")}
    return not missing & own
