"""Finds out where a module that could not be imported comes from, by the manifests and files of a repository.

The module's name comes from a trace and is untrusted: it is only looked up, and never selects a package to install.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from tasks.toolchain.files import stem_of
from tasks.toolchain.languages import LANGUAGES

MOST_NAMES = 1000  # of packages that manifests declare, and of modules of the repository: a plan keeps them for weeks
MAX_NAME = 100

_MISSING = re.compile(
    r"No module named ['\"]?(?P<python>[A-Za-z_][\w.]*)"
    r"|(?:Cannot find (?:module|package)|Can't resolve|Failed to resolve import) ['\"](?P<node>[@~#$\w./-]+)['\"]"
    r"|no required module provides package (?P<go>[\w./@~-]+)"
    r"|(?:can't find crate for|unresolved import|unresolved module or unlinked crate) `(?P<rust>\w+(?:::\w+)*)"
)
_OWN_PATHS = (".", "/", "~", "#", "$", "@/")  # aliases begin with these, and no package of npm does
_OWN_CRATES = frozenset({"crate", "self", "super"})
_NAME = re.compile(r"(?<![\w.@/-])@?[A-Za-z][\w.-]+(?:/[\w.-]+)*")
_PACKAGES = {  # module -> its package, if their names differ
    "attr": "attrs", "bs4": "beautifulsoup4", "cv2": "opencv-python", "dateutil": "python-dateutil",
    "dotenv": "python-dotenv", "fitz": "pymupdf", "git": "gitpython", "jose": "python-jose", "jwt": "pyjwt",
    "magic": "python-magic", "mysqldb": "mysqlclient", "openssl": "pyopenssl", "pil": "pillow",
    "pkg-resources": "setuptools", "psycopg2": "psycopg2-binary", "serial": "pyserial", "skimage": "scikit-image",
    "sklearn": "scikit-learn", "yaml": "pyyaml", "zmq": "pyzmq",
}  # fmt: skip

_BUILT_IN = {  # well-known modules that come with a language
    "python": frozenset(
        {
            *("argparse", "asyncio", "base64", "calendar", "collections", "concurrent", "configparser"),
            *("contextlib", "dataclasses", "datetime", "decimal", "difflib", "email", "enum", "fractions"),
            *("functools", "glob", "hashlib", "html", "http", "importlib", "inspect", "itertools", "json"),
            *("logging", "math", "multiprocessing", "operator", "pathlib", "pickle", "platform", "queue", "random"),
            *("secrets", "shutil", "signal", "socket", "sqlite3", "statistics", "string", "struct", "subprocess"),
            *("tempfile", "textwrap", "threading", "time", "traceback", "types", "typing", "unittest", "urllib"),
            *("uuid", "warnings", "weakref", "zipfile", "zoneinfo"),
        }
    ),
    "node": frozenset(
        {"assert", "buffer", "cluster", "crypto", "events", "path", "process", "readline", "stream", "util"}
    ),
}
_PATHS = re.compile(r'"paths"\s*:\s*\{([^{}]*)\}')
_ALIAS = re.compile(r'"([^"*\s]{1,100})\*?"\s*:\s*\[')
_SWAPPED, _CHANGED = 4, 6  # minimal lengths of a misspelt name
_NODE_SUFFIXES = (*LANGUAGES["javascript"].suffixes, *LANGUAGES["typescript"].suffixes)


class Origin(StrEnum):
    """Where a module that could not be imported comes from."""

    OWN = "own"  # the repository's
    DECLARED = "declared"  # of a package that a manifest names
    UNDECLARED = "undeclared"


class Missing(NamedTuple):
    """A module that could not be imported, as the failure names it."""

    name: str
    language: str

    @property
    def package(self) -> str:
        """The name of the package that contains the module, in the form of names in manifests."""
        if self.language == "node":
            parts = self.name.split("/")
            return _plain("/".join(parts[:2] if self.name.startswith("@") else parts[:1]))
        if self.language == "rust":
            return _plain(self.name.partition("::")[0])
        return _plain(self.name.partition(".")[0] if self.language == "python" else self.name)


def missing_in(text: str) -> Missing | None:
    """Return the first module that a failure reports as missing; None if there is none."""
    found = _MISSING.search(text)
    if found is None or found.lastgroup is None:
        return None
    return Missing(found[found.lastgroup].rstrip(".")[:MAX_NAME], found.lastgroup)


def origin_of(missing: Missing, own: Collection[str], declared: Collection[str]) -> Origin:
    """Return where a module comes from; `own` has the repository's modules, `declared` the packages of manifests."""
    package = missing.package
    if missing.name.startswith(_OWN_PATHS) or (missing.language == "rust" and package in _OWN_CRATES):
        return Origin.OWN
    if missing.language == "python" and package in own:
        return Origin.OWN
    if missing.language == "node" and any(missing.name.startswith(each) for each in own if each.endswith("/")):
        return Origin.OWN
    known = {package, _PACKAGES.get(package, package)}
    if missing.language == "go":  # a module's packages lie below it
        parts = package.split("/")
        known |= {"/".join(parts[:size]) for size in range(1, len(parts))}
    if not known.isdisjoint(declared):
        return Origin.DECLARED
    return Origin.OWN if package in own else Origin.UNDECLARED  # in other languages files are named after packages


def meant_by(missing: Missing, own: Collection[str], declared: Collection[str]) -> str | None:
    """Return a built-in, own or declared module whose name the missing one misspells; None if there is none."""
    known = {*map(_plain, _BUILT_IN.get(missing.language, ())), *own, *declared}
    found = sorted(name for name in known if _is_slip(missing.package, name))
    return found[0] if found else None


def _is_slip(name: str, meant: str) -> bool:
    """Return whether a name has one typing error: two letters swapped, or one letter added, removed or replaced.

    Names that differ only in digits are versions, and short names are too alike: both are no typing errors.
    """
    if name == meant or re.sub(r"\d", "", name) == re.sub(r"\d", "", meant):
        return False
    if len(name) == len(meant):
        at = [place for place, (one, other) in enumerate(zip(name, meant, strict=True)) if one != other]
        if len(at) == 2 and at[1] == at[0] + 1 and name[at[0]] == meant[at[1]] and name[at[1]] == meant[at[0]]:
            return len(name) >= _SWAPPED
        return len(at) == 1 and len(name) >= _CHANGED
    short, long = sorted((name, meant), key=len)
    is_one = len(long) == len(short) + 1 and any(long[:at] + long[at + 1 :] == short for at in range(len(long)))
    return is_one and len(short) >= _CHANGED


def aliases_in(manifests: Mapping[str, str]) -> list[str]:
    """Return the path aliases in TypeScript configurations; an alias for a whole folder ends with `/`."""
    texts = (text for name, text in manifests.items() if name.endswith(".json"))
    return [alias for text in texts for paths in _PATHS.findall(text) for alias in _ALIAS.findall(paths)]


def names_in(manifests: Mapping[str, str]) -> list[str]:
    """Return all words of manifests that may be names of packages; some of them are none."""
    names = (_plain(name) for text in manifests.values() for name in _NAME.findall(text) if len(name) <= MAX_NAME)
    return list(dict.fromkeys(names))


def modules_of(files: Iterable[str]) -> list[str]:
    """Return the names under which the repository's own modules and packages are imported."""
    found: dict[str, None] = {}
    for path in files:
        *folders, name = path.split("/")
        if path.endswith((".py", ".pyi", ".rs")):
            found.update(dict.fromkeys(map(_plain, (*folders[:3], stem_of(name)))))
        elif path.endswith(_NODE_SUFFIXES):  # deeper modules are imported by their path
            found.update(dict.fromkeys(map(_plain, (*folders, stem_of(name))[:2])))
    return list(found)


def _plain(name: str) -> str:
    return name.casefold().replace("_", "-")
