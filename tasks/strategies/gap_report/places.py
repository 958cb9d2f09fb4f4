"""The files of a project as words speak of them: paths as a tool or a person writes them, modules, layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from schemas.gap import MAX_TARGETS
from tasks.strategies.gap_report.protection import PROTECTED
from tasks.text.forbidden_paths import FORBIDDEN, JUDGED, Forbidden
from tasks.text.paths import clean, fault
from tasks.toolchain.files import Role, having, name_of, role_of

LAYERS = {"domain": "domain", "kernel": "kernel", "adapter": "adapters", "adapters": "adapters", "ports": "ports"}
MODULES = "modules"
MANY = 10  # files of a module; where it has more, only those that its documents name

_ATTACKS = frozenset({"control_character", "potential_injection"})  # what is wrong with a path that is not even shown
_FOREIGN = re.compile(r"(?:^|/)(?:site-packages|dist-packages|node_modules|\.venv|venv|\.cargo|lib/python[\d.]+)/")
_ODD = re.compile(r"[\s()\"'`<>|,;=]")
_MENTION = re.compile(r"(?<![\w./@:-])(?:\.{1,2}/)?[\w.@+-]+(?:/[\w.@+-]+)*/?(?![\w@])")
_FILE = re.compile(r".+\.(?:py|pyi|md|rst|toml|cfg|ini|ya?ml|json|tsx?|jsx|go|rs|c|h|cc|cpp|hpp|sql|sh|css|html)")
_NAMED = (  # the first that finds a name counts
    re.compile(r"\bmodules?\s+[\"'`]?([A-Za-z_][\w-]*)", re.IGNORECASE),
    re.compile(r"\b([A-Za-z_][\w-]*)[\"'`]?\s+module\b", re.IGNORECASE),
)
NO_NAMES = frozenset(
    re.findall(
        r"\w+",
        "a an the this that these those each every all any new own of for to and or in is are with which its our by "
        "create implement add write make build change fix update remove delete test tests first next same main python",
    )
)


@dataclass(frozen=True)
class Places:
    """What is known: files that exist, and files that may be made since the goal allows them."""

    existing: frozenset[str]
    files: tuple[str, ...]
    sources: tuple[str, ...] = ()  # that the goal allows
    forbidden: Forbidden = FORBIDDEN

    @classmethod
    def of(cls, listing: Iterable[str], allowed: Iterable[str], forbidden: Forbidden = FORBIDDEN) -> Places:
        """Put the listing and the allowlist together; a file whose very name is an attack is not known."""
        listed, given = dict.fromkeys(filter(_is_harmless, map(clean, listing))), dict.fromkeys(allowed)
        return cls(frozenset(listed), tuple(listed | given), having(given, Role.SOURCE), forbidden)

    def locate(self, mention: str, *, by_tool: bool = True) -> str | None:
        """Find the file that a tool or a person means; None for one that cannot be of this project.

        What tools print may begin with folders above the project; what a person writes is a path within it.
        """
        path = clean(mention.replace("\\", "/").rstrip(".:"))
        parts = path.split("/")
        named = self._by_name.get(parts[-1], ())
        near = [known for known in named if known == path or (by_tool and _ends(parts, known.split("/")))]
        if near and not _FOREIGN.search(path):
            return max(near, key=len)
        longer = [known for known in named if _ends(known.split("/"), parts)]
        if len(longer) == 1:
            return longer[0]
        is_file = _FILE.fullmatch(path) and not _FOREIGN.search(path)
        return path if is_file and fault(path, self.forbidden) is None else None

    def located(self, mentions: Iterable[str]) -> tuple[str, ...]:
        """Find each of these, once, at most as many as an action may have."""
        found = dict.fromkeys(path for path in map(self.locate, mentions) if path)
        return tuple(found)[:MAX_TARGETS]

    def within(self, folder: str) -> tuple[str, ...]:
        """List the known files below `folder`, which ends with a slash, that a step may touch."""
        return tuple(path for path in self.files if path.startswith(folder) and fault(path, self.forbidden) is None)

    def explicit(self, text: str) -> tuple[str, ...]:
        """List the files and folders that `text` names as paths."""
        return tuple(dict.fromkeys(self._paths(text)))[:MAX_TARGETS]

    def modules(self, text: str) -> tuple[str, ...]:
        """List the folders of the modules that `text` speaks of: `module X`, or the name of one that there is."""
        flat = f"_{re.sub('[^a-z0-9]+', '_', text.casefold())}_"
        known = [folder for name, folder in self._modules.items() if f"_{name}_" in flat]
        return tuple(dict.fromkeys([*known, *self._new_modules(text)]))

    def layers(self, text: str) -> tuple[str, ...]:
        """List the sources that lie in a folder for whose layer `text` has a keyword, such as domain/*.py."""
        words = re.findall(r"[a-z]+", text.casefold())
        folders = {LAYERS[word] for word in words if word in LAYERS}
        found = (path for path in self.files if path.split("/")[-2:-1] and path.split("/")[-2] in folders)
        return tuple(path for path in found if role_of(path) is Role.SOURCE)[:MAX_TARGETS]

    def tests_of(self, name: str) -> tuple[str, ...]:
        """List the tests whose name has `name` in it."""
        word = name.casefold().replace("-", "_")
        return tuple(path for test, path in self._tests if word in test)[:MAX_TARGETS]

    def tests_named(self, sources: Iterable[str]) -> tuple[str, ...]:
        """List the tests that are named after these sources."""
        names = {_stem(path) for path in sources}
        return tuple(path for _, path in self._tests if _subject(path) in names)[:MAX_TARGETS]

    def tested_by(self, tests: Iterable[str]) -> tuple[str, ...]:
        """List the sources that the goal allows and that these tests are named after."""
        names = {_subject(path) for path in tests}
        return tuple(path for path in self.sources if _stem(path) in names)

    @cached_property
    def odd(self) -> frozenset[str]:
        """The files whose names no pattern can tell from the words around them."""
        return frozenset(filter(_ODD.search, self.files))

    @cached_property
    def _tests(self) -> tuple[tuple[str, str], ...]:
        """List the tests by their names, in lower case."""
        return tuple((name_of(path).casefold(), path) for path in having(self.files, Role.TEST))

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for path in self.files:
            index.setdefault(name_of(path), []).append(path)
        return index

    @cached_property
    def _modules(self) -> dict[str, str]:
        """Index the folders below a folder `modules` by their names."""
        found: dict[str, str] = {}
        for path in self.files:
            parts = path.split("/")
            if MODULES in parts[:-2]:
                at = parts.index(MODULES) + 2
                found.setdefault(parts[at - 1].casefold().replace("-", "_"), "/".join(parts[:at]) + "/")
        return found

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(
            "/".join(path.split("/")[:size]) for path in self.files for size in range(1, path.count("/") + 1)
        )

    def _paths(self, text: str) -> Iterator[str]:
        for mention in _MENTION.findall(text):
            word = clean(mention.rstrip("."))
            folder = word.rstrip("/")
            if word.endswith("/") or ("/" in folder and folder in self._folders):
                yield f"{folder}/"
            elif _FILE.fullmatch(word) or name_of(word) in self._by_name or _is_protected(word):
                path = self.locate(word, by_tool=False) or (word if _is_protected(word) else None)
                yield from (path,) if path else ()

    def _new_modules(self, text: str) -> Iterator[str]:
        root = next(iter(self._modules.values()), f"{MODULES}/x/").rstrip("/").rpartition("/")[0]
        named = ([name.casefold() for name in pattern.findall(text)] for pattern in _NAMED)
        names = next(filter(None, ([name for name in each if name not in NO_NAMES] for each in named)), [])
        for name in names:
            if name.replace("-", "_") not in self._modules:
                yield from self._folder_of(name, f"{root}/{name}/")

    def _folder_of(self, name: str, otherwise: str) -> Iterator[str]:
        named = [f"{folder}/" for folder in sorted(self._folders) if folder.split("/")[-1].casefold() == name]
        if named:
            yield named[0]
        elif self._modules:
            yield otherwise


def _stem(path: str) -> str:
    return name_of(path).partition(".")[0].casefold()


def _subject(test: str) -> str:
    """Take what a test is named after: `cart` of test_cart.py, cart_test.go, cart.spec.ts and CartTests.java."""
    return re.sub(r"^tests?_|[_-]?(?:tests?|spec)$", "", _stem(test))


def _ends(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    return len(shorter) <= len(longer) and list(longer[len(longer) - len(shorter) :]) == list(shorter)


def _is_harmless(path: str) -> bool:
    found = fault(path, JUDGED)
    return found is None or found.code not in _ATTACKS


def _is_protected(word: str) -> bool:
    return any(word.casefold().lstrip("./").startswith(path.casefold()) for path in PROTECTED)
