"""Finds the files in a checkout that names of tests mean; reports write names relative to the runner's folder."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tasks.toolchain.files import name_of

_FILE = re.compile(r"[^\s:]+\.(?:py|[cm]?[jt]sx?)")
_DOTTED = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


class ResolvedTests(NamedTuple):
    """Names of tests with their paths in the checkout, and `unknown` names, whose file does not exist there."""

    names: tuple[str, ...]
    unknown: tuple[str, ...]


def resolve_tests(names: Iterable[str], listing: Iterable[str]) -> ResolvedTests:
    """Give each name of a test the path of its file in `listing`, which must be the complete list of files.

    A name without a file, such as `TestLogin` or `cart::tests::adds`, does not change. A dotted name does not change if
    no file in `listing` is its module.
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
    """Yield the possible full names of a test, the best first: by its file, then by a module in a dotted name."""
    file, colons, inner = name.partition("::")
    if _FILE.fullmatch(file) and (path := _file_like(file, by_name)):
        yield path + colons + inner
    if file.endswith(".py"):
        yield from _in_modules(file.removesuffix(".py").split("/"), inner, by_name)
    elif _DOTTED.fullmatch(name):
        yield from _in_modules(file.split("."), "", by_name)


def _in_modules(parts: list[str], inner: str, by_name: dict[str, list[str]]) -> Iterator[str]:
    """Yield the full name of a test for each leading part of `parts` that is a module, the longest module first.

    The other parts are classes and functions, and follow the module's path.
    """
    for count in range(len(parts) - 1, 0, -1):
        if path := _file_like("/".join(parts[:count]) + ".py", by_name):
            yield "::".join((path, *parts[count:], *filter(None, (inner,))))


def _file_like(path: str, by_name: dict[str, list[str]]) -> str | None:
    """Return the one file in the checkout that `path` means; None if there is none, or several longer ones.

    It is an equal path, else the only path that ends with `path`, else the longest one that `path` ends with. A path on
    another machine, such as `/builds/shop/tests/test_a.py`, ends with a path in the checkout. A path relative to a
    folder of the checkout, such as `tests/test_a.py`, is the end of one.
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
