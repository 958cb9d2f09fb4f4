"""Finds the sources that may be at fault if tests fail.

A traceback names the test and the place where it ended, which may not be the cause. So the sources that the tests are
named after, and the sources that they import, are suspects, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tasks.strategies.gap_report.places import MANY, Places
from tasks.toolchain.files import Role, files_of, stem_of

MAX_READ = 20_000  # characters of a test

_DOTTED = re.compile(r"^[ \t>]*(?:from[ \t]+(\.*[\w.]+)[ \t]+)?import[ \t]+\(?([\w., \t]{1,400})", re.MULTILINE)
_QUOTED = re.compile(r"(?:\bfrom|\bimport|\brequire\()[ \t]*['\"]([\w./@-]{1,200})['\"]")


def with_suspects(
    files: Sequence[str], texts: Mapping[str, str], evidence: str, places: Places, room: int
) -> tuple[str, ...]:
    """Return the files in the `evidence` of failing tests and the sources that may be at fault, `room` files at most.

    `texts` contains the files that the goal brings. The result is empty if many sources may be at fault: then a step
    has to look. If there are too many files, at most half of `room` is for tests, because a repair needs a source.
    """
    every = _suspects(files, texts, evidence, places)
    if len(every) <= room:
        return every
    left_out = frozenset(files_of(files, Role.TEST)[room // 2 :])
    first = _suspects([path for path in files if path not in left_out], texts, "", places)
    return tuple(dict.fromkeys((*first, *files_of(every, Role.SOURCE), *every)))[:room]


def _suspects(files: Sequence[str], texts: Mapping[str, str], evidence: str, places: Places) -> tuple[str, ...]:
    tests = files_of(files, Role.TEST)
    read = (evidence, *(texts.get(path, "")[:MAX_READ] for path in tests))
    suspects = dict.fromkeys((*files, *places.sources_for(tests), *imported(read, places.sources)))
    if not files_of(suspects, Role.SOURCE) and len(places.sources) > MANY:
        return ()
    if not files_of(suspects, Role.SOURCE):
        suspects |= dict.fromkeys(places.sources)
    return tuple(suspects)


def imported(texts: Iterable[str], sources: Iterable[str]) -> tuple[str, ...]:
    """Return the `sources` that `texts` import; an import matches the end of a path."""
    modules: set[str] = set()
    for text in texts:
        for package, names in _DOTTED.findall(text):
            within = package.strip(".").replace(".", "/")
            modules.update(
                "/".join(filter(None, (within, name.split()[0].replace(".", "/"))))
                for name in names.split(",")
                if name.split()
            )
            modules.add(within)
        modules.update(
            re.sub(r"^(?:\.{0,2}/)+|(?:/index)?(?:\.[cm]?[jt]sx?)?$", "", path) for path in _QUOTED.findall(text)
        )
    return tuple(path for path in sources if not modules.isdisjoint(_names_of(path)))


def _names_of(path: str) -> Iterable[str]:
    """Yield every module name that may import a source: the ends of its path without suffix."""
    parts = path.split("/")
    parts[-1] = stem_of(path)
    if parts[-1] in ("__init__", "index"):
        parts.pop()
    return ("/".join(parts[at:]) for at in range(len(parts)))
