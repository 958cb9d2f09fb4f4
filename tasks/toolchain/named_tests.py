"""Finds the files of a checkout that names of tests mean; reports name them relative to the folder of their runner."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tasks.toolchain.files import name_of

_FILE = re.compile(r"[^\s:]+\.(?:py|[cm]?[jt]sx?)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


class ResolvedTests(NamedTuple):
    """The names of tests as in the checkout, and names with a file that does not exist there."""

    names: tuple[str, ...]
    unknown: tuple[str, ...]


def resolve_tests(names: Iterable[str], listing: Iterable[str]) -> ResolvedTests:
    """Name each test by its file in `listing`, which has to be complete.

    A name without a file, such as `TestLogin` or `cart::tests::adds`, stays as it is. So does a dotted name without a
    module here.
    """
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in listing:
        by_name[name_of(path)].append(path)
    found: dict[str, None] = {}
    unknown: list[str] = []
    for name in names:
        if resolved := next(_resolutions(name, by_name), None):
            found[resolved] = None
        elif _FILE.fullmatch(name.partition("::")[0]):
            unknown.append(name)
        else:
            found[name] = None
    return ResolvedTests(tuple(found), tuple(unknown))


def _resolutions(name: str, by_name: dict[str, list[str]]) -> Iterator[str]:
    """Yield the possible meanings of a name: its file, else a module at the start of a dotted name."""
    file, colons, inner = name.partition("::")
    if _FILE.fullmatch(file) and (path := _file_like(file, by_name)):
        yield path + colons + inner
    if file.endswith(".py"):
        yield from _in_modules(file.removesuffix(".py").split("/"), inner, by_name)
    elif _DOTTED.fullmatch(name):
        yield from _in_modules(file.split("."), "", by_name)


def _in_modules(parts: list[str], inner: str, by_name: dict[str, list[str]]) -> Iterator[str]:
    """Yield the test in the module with the longest name; classes and functions follow the module."""
    for count in range(len(parts) - 1, 0, -1):
        if path := _file_like("/".join(parts[:count]) + ".py", by_name):
            yield "::".join((path, *parts[count:], *filter(None, (inner,))))


def _file_like(path: str, by_name: dict[str, list[str]]) -> str | None:
    """Return the one file that a path means: an equal one, one that ends with it, or one that it ends with.

    A path of a container or of another machine, `/builds/shop/tests/test_a.py`, ends with a file of the checkout. A
    path from a folder below the root, `tests/test_a.py`, is the end of one.
    """
    plain = path.removeprefix("./")
    candidates = by_name.get(name_of(plain), ())
    if plain in candidates:
        return plain
    longer = [each for each in candidates if each.endswith("/" + plain.lstrip("/"))]
    if len(longer) == 1:
        return longer[0]
    shorter = [each for each in candidates if plain.endswith("/" + each)] if not longer else []
    return max(shorter, key=len, default=None)
