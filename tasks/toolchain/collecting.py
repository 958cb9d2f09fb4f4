"""Finds imports that fail while pytest collects tests, except those of modules that a campaign will write.

Tests may be written before their code. An import then fails as expected if the plan creates or changes the imported
module. pytest reports one such error for each file of tests.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

TOOL = "pytest-collect"  # the contract that only collects tests
COLLECTING = "--collect-only"
MOST_ERRORS = 20
MAX_ERROR = 200

_ERROR = re.compile(r"^E +(?P<error>(?:\w+\.)*\w*(?:Error|Exception)\b.*)$", re.MULTILINE)
_NO_MODULE = re.compile(r"\b(?:ModuleNotFoundError|ImportError): No module named ['\"]?(?P<module>[\w.]+)")
_NO_NAME = re.compile(
    r"\bImportError: cannot import name ['\"](?P<name>\w+)['\"] from [\w ()-]*['\"](?P<module>[\w.]+)"
)


def errors_in(output: str) -> list[str]:
    """Return the errors that stopped pytest from collecting files, in the form of its output."""
    found = (f"E   {match['error'].strip()[:MAX_ERROR]}" for match in _ERROR.finditer(output))
    return list(dict.fromkeys(found))[:MOST_ERRORS]


def unexpected(text: str, files: Iterable[str]) -> list[str]:
    """Return the failed imports in `text`, except those of modules that a file of `files` provides."""
    known = frozenset(name for path in files for name in _modules_of(path))
    found = (line for line in text.splitlines() for name in [_imported(line)] if name and not _is_known(name, known))
    return list(dict.fromkeys(line.removeprefix("E").strip() for line in found))


def _imported(line: str) -> tuple[str, str] | None:
    """Return the module of a failed import and the name imported from it, else ""; None for another line."""
    if found := _NO_NAME.search(line):
        return found["module"], found["name"]
    found = _NO_MODULE.search(line)
    return (found["module"].rstrip("."), "") if found else None


def _is_known(imported: tuple[str, str], known: Collection[str]) -> bool:
    """Return whether `known` has the imported module, a module inside of it, or the imported name as a module."""
    module, name = imported
    if module in known or (name and f"{module}.{name}" in known):
        return True
    return not name and any(each.startswith(f"{module}.") for each in known)


def _modules_of(path: str) -> Iterator[str]:
    """Yield the names that import a Python file: from the root, or from a folder above the file."""
    if path.endswith(".py"):
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        yield from (".".join(parts[begin:]) for begin in range(len(parts)))
