"""Finds the files that words mean: by path, by module or by layer.

The planner reads no repository. The goal brings the texts of CONTRACT.md and SPEC.md, which describe their module. They
are untrusted: they only choose among known files, and a controller gets a sanitized summary of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from schemas.kinds.gap_report import MAX_TARGETS
from tasks.text.fields import fit
from tasks.text.forbidden_paths import FORBIDDEN, JUDGED, Forbidden
from tasks.text.paths import clean, fault
from tasks.toolchain.files import Role, files_of, name_of, stem_of, subject_of

LAYERS = {"domain": "domain", "kernel": "kernel", "adapter": "adapters", "adapters": "adapters", "ports": "ports"}
MODULES = "modules"
MANY = 10  # files of a module; if it has more, only those that its documents name
MAX_ODD = 1000  # files that are searched in a text one by one

_ATTACKS = frozenset({"control_character", "potential_injection"})  # faults of a path that is not even shown
_FOREIGN = re.compile(r"(?:^|/)(?:site-packages|dist-packages|node_modules|\.venv|venv|\.cargo|lib/python[\d.]+)/")
_ODD = re.compile(r"[\s()\"'`<>|,;=]")
_MENTION = re.compile(r"(?<![\w./@:-])(?:\.{1,2}/)?[\w.@+-]+(?:/[\w.@+-]+)*/?(?![\w@])")
_FILE = re.compile(
    r".+\.(?:py|pyi|md|rst|toml|cfg|ini|ya?ml|json|[cm]?[jt]s|[jt]sx|java|kts?|go|rs|c|h|cc|cpp|hpp|cs|rb|php|swift|"
    r"sql|sh|css|html|vue|svelte)"
)
_PRODUCT = re.compile(  # products with names like those of files
    r"(?:backbone|chart|d3|discord|ember|express|ext|koa|moment|nest|next|node|nuxt|p5|react|socket|three|underscore|vue)"
    r"\.js",
    re.IGNORECASE,
)
_ATTRIBUTE = re.compile(r"(?:ctx|this|self|req(?:uest)?|resp?(?:onse)?)\.\w+", re.IGNORECASE)  # res.json is a method
_WORD = re.compile(r"[^\s\"'`<>|,;=()]{1,400}")
_PLACE = re.compile(r":\d.*|(?<![.:])[.:]+$")  # text that tools write after a path
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

PROTECTED = ("seed.py", "VISION.md", "kernel/", "roadmap/")  # no iteration may touch these, in any project

MODULE_DOCUMENTS = ("CONTRACT.md", "SPEC.md")
MAX_READ = 20_000  # characters of a document
MAX_GIST = 300
MAX_HEADINGS = 8

_HEADING = re.compile(r"^#{1,4}[ \t]+(\S[^\n]{0,200})", re.MULTILINE)
_FIRST = re.compile(r"^(?![ \t]*(?:#|```|---|\||$))[ \t]*(\S[^\n]*)", re.MULTILINE)
_CODE = re.compile(r"`([\w./@+-]{1,200}\.\w{1,8})`|^[ \t│├└─*+-]{1,60}([\w./@+-]{1,200}\.\w{1,8})\b", re.MULTILINE)


@dataclass(frozen=True)
class Places:
    """The files that exist, and the files that the goal allows to change or create."""

    existing: frozenset[str]
    files: tuple[str, ...]
    sources: tuple[str, ...] = ()  # that the goal allows, and that exist where any of these is known to
    forbidden: Forbidden = FORBIDDEN
    allowed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, listing: Iterable[str], allowed: Iterable[str], forbidden: Forbidden = FORBIDDEN) -> Places:
        """Return the places of a listing and an allowlist; a listed file whose name is an attack is left out."""
        listed, given = dict.fromkeys(filter(_is_harmless, map(clean, listing))), dict.fromkeys(allowed)
        there = tuple(path for path in given if path in listed) or tuple(given)
        sources = files_of(there, Role.SOURCE)
        return cls(frozenset(listed), tuple(listed | given), sources, forbidden, frozenset(given))

    @property
    def absent(self) -> tuple[str, ...]:
        """The sources that the goal allows and that do not exist yet, so none of these can have caused a failure.

        There are at most MAX_TARGETS of them, because a plan stores them.
        """
        return files_of(sorted(self.allowed.difference(self.sources)), Role.SOURCE)[:MAX_TARGETS]

    def locate(self, mention: str, *, by_tool: bool = True) -> str | None:
        """Return the file of the project that a tool or a person means; None if there can be no such file.

        With `by_tool` the mention may have folders above the project in front.
        """
        path = clean(mention.replace("\\", "/").rstrip(".:"))
        if known := self._known(path, by_tool=by_tool):
            return known
        is_file = _FILE.fullmatch(path) and not _FOREIGN.search(path)
        return path if is_file and fault(path, self.forbidden) is None else None

    def _known(self, path: str, *, by_tool: bool) -> str | None:
        parts = path.split("/")
        named = self._by_name.get(parts[-1], ())
        near = [known for known in named if known == path or (by_tool and _ends(parts, known.split("/")))]
        if near and not _FOREIGN.search(path):
            return max(near, key=len)
        longer = [known for known in named if _ends(known.split("/"), parts)]
        return longer[0] if len(longer) == 1 else None

    def knows_any(self, files: Iterable[str]) -> bool:
        """Return whether one of `files` is known."""
        return not self._every.isdisjoint(files)

    def named_in(self, text: str) -> tuple[str, ...]:
        """Return the known files that `text` names; a name without a folder only means a file at the root."""
        words = (clean(_PLACE.sub("", word.replace("\\", "/"))) for word in _WORD.findall(text) if "://" not in word)
        paths = dict.fromkeys(word for word in words if name_of(word) in self._by_name)
        found = (self._known(path, by_tool=True) if "/" in path else path for path in paths)
        odd = (path for path in sorted(self.odd)[:MAX_ODD] if path in text)
        return self.first(path for path in (*found, *odd) if path in self._every)

    def first(self, files: Iterable[str]) -> tuple[str, ...]:
        """Return each of `files` once, MAX_TARGETS at most; if there are more, allowed files come first."""
        once = tuple(dict.fromkeys(files))
        if len(once) > MAX_TARGETS:
            once = tuple(sorted(once, key=lambda path: path not in self.allowed))
        return once[:MAX_TARGETS]

    def locate_all(self, mentions: Iterable[str]) -> tuple[str, ...]:
        """Return the file of each mention once, MAX_TARGETS at most; mentions without a file are left out."""
        return self.first(path for path in map(self.locate, mentions) if path)

    def within(self, folder: str) -> tuple[str, ...]:
        """Return the known files below `folder/` that a step may touch."""
        return tuple(path for path in self.files if path.startswith(folder) and fault(path, self.forbidden) is None)

    def paths_in(self, text: str) -> tuple[str, ...]:
        """Return the files and folders that `text` names as paths."""
        paths: list[str | None] = []
        for mention in _MENTION.finditer(text):
            word = clean(mention[0].rstrip("."))
            folder = word.rstrip("/")
            if word.endswith("/") or ("/" in folder and folder in self._folders):
                paths.append(f"{folder}/")
            elif _is_protected(word):
                paths.append(self.locate(word, by_tool=False) or word)
            elif name_of(word) in self._by_name or (_is_new_file(word) and not text.startswith("(", mention.end())):
                paths.append(self.locate(word, by_tool=False))
        return tuple(path for path in dict.fromkeys(paths) if path)[:MAX_TARGETS]

    def modules_in(self, text: str) -> tuple[str, ...]:
        """Return the folders of the modules that `text` names, by a known name or as `module X`."""
        flat = f"_{re.sub('[^a-z0-9]+', '_', text.casefold())}_"
        folders = [folder for name, folder in self._modules.items() if f"_{name}_" in flat]
        root = next(iter(self._modules.values()), f"{MODULES}/x/").rstrip("/").rpartition("/")[0]
        named = ([name.casefold() for name in pattern.findall(text)] for pattern in _NAMED)
        new = next(filter(None, ([name for name in each if name not in NO_NAMES] for each in named)), [])
        for name in new:
            if name.replace("-", "_") in self._modules:
                continue
            known = [folder for folder in sorted(self._folders) if name_of(folder).casefold() == name]
            if known:
                folders.append(f"{known[0]}/")
            elif self._modules:
                folders.append(f"{root}/{name}/")
        return tuple(dict.fromkeys(folders))

    def layers_in(self, text: str) -> tuple[str, ...]:
        """Return the known sources in the folders of a layer that `text` names, such as domain/*.py."""
        words = re.findall(r"[a-z]+", text.casefold())
        folders = {LAYERS[word] for word in words if word in LAYERS}
        return files_of((path for path in self.files if set(path.split("/")[-2:-1]) & folders), Role.SOURCE)[
            :MAX_TARGETS
        ]

    def tests_of(self, name: str) -> tuple[str, ...]:
        """Return the tests with `name` in their name."""
        word = name.casefold().replace("-", "_")
        return tuple(path for test, path in self._tests if word in test)[:MAX_TARGETS]

    def tests_for(self, sources: Iterable[str]) -> tuple[str, ...]:
        """List the tests that are named after these sources."""
        names = {stem_of(path) for path in sources}
        return tuple(path for _, path in self._tests if subject_of(path) in names)[:MAX_TARGETS]

    def sources_for(self, tests: Iterable[str]) -> tuple[str, ...]:
        """List the sources that the goal allows and that these tests are named after."""
        names = {subject_of(path) for path in tests}
        return tuple(path for path in self.sources if stem_of(path) in names)

    @cached_property
    def odd(self) -> frozenset[str]:
        """The known files whose names contain blanks or other characters that patterns cannot find within a line."""
        return frozenset(filter(_ODD.search, self.files))

    @cached_property
    def _every(self) -> frozenset[str]:
        return frozenset(self.files)

    @cached_property
    def _tests(self) -> tuple[tuple[str, str], ...]:
        """The tests by their names, in lower case."""
        return tuple((name_of(path).casefold(), path) for path in files_of(self.files, Role.TEST))

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        index: dict[str, list[str]] = {}
        for path in self.files:
            index.setdefault(name_of(path), []).append(path)
        return index

    @cached_property
    def _modules(self) -> dict[str, str]:
        """The folder of each module, by the module's name; modules are below a folder `modules`."""
        index: dict[str, str] = {}
        for path in self.files:
            parts = path.split("/")
            if MODULES in parts[:-2]:
                at = parts.index(MODULES) + 2
                index.setdefault(parts[at - 1].casefold().replace("-", "_"), "/".join(parts[:at]) + "/")
        return index

    @cached_property
    def _folders(self) -> frozenset[str]:
        return frozenset(
            "/".join(path.split("/")[:size]) for path in self.files for size in range(1, path.count("/") + 1)
        )


def _ends(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    return len(shorter) <= len(longer) and list(longer[len(longer) - len(shorter) :]) == list(shorter)


def _is_harmless(path: str) -> bool:
    found = fault(path, JUDGED)
    return found is None or found.code not in _ATTACKS


def _is_new_file(word: str) -> bool:
    return bool(_FILE.fullmatch(word)) and not _PRODUCT.fullmatch(word) and not _ATTRIBUTE.fullmatch(word)


def _is_protected(word: str) -> bool:
    return any(word.casefold().lstrip("./").startswith(path.casefold()) for path in PROTECTED)


@dataclass(frozen=True, slots=True)
class ModuleDocument:
    """A document that describes a module: its CONTRACT.md or its SPEC.md."""

    path: str
    folder: str  # with a slash
    text: str

    @property
    def gist(self) -> str:
        """The subject of the document in one line: its first sentence, then its headings."""
        first = _FIRST.search(self.text)
        headings = _HEADING.findall(self.text)[:MAX_HEADINGS]
        return fit("; ".join(filter(None, (first[1] if first else "", *headings))), MAX_GIST)

    def files_among(self, places: Places) -> tuple[str, ...]:
        """Return the module's files that the document names: known files, or any if no file of the module is known."""
        words = [one or other for one, other in _CODE.findall(self.text)]
        names = [clean(word) for word in words if not word.endswith(MODULE_DOCUMENTS)]
        folder = self.folder
        paths = dict.fromkeys(name if name.startswith(folder) else folder + name.lstrip("/") for name in names)
        if known := set(places.within(folder)):
            return tuple(path for path in paths if path in known)
        return tuple(path for path in paths if fault(path, places.forbidden) is None)


@dataclass(frozen=True, slots=True)
class Documents:
    """A project's documents that the goal brings."""

    texts: Mapping[str, str]

    @classmethod
    def of(cls, *sources: Mapping[str, str]) -> Documents:
        """Return the documents of all `sources`; a later source replaces documents with the same path."""
        return cls({clean(path): text for source in sources for path, text in source.items()})

    def of_modules(self, folders: Iterable[str]) -> tuple[ModuleDocument, ...]:
        """Return the documents of these folders, which end with a slash."""
        return tuple(
            ModuleDocument(f"{folder}{name}", folder, text[:MAX_READ])
            for folder in dict.fromkeys(folders)
            for name in MODULE_DOCUMENTS
            if (text := self.texts.get(f"{folder}{name}"))
        )

    def around(self, files: Iterable[str]) -> tuple[ModuleDocument, ...]:
        """Return the module documents nearest to each of `files`: in its folder, or in the next folder above."""
        nearest: list[str] = []
        for path in files:
            parts = path.split("/")[:-1]
            above = ("/".join(parts[:size]) + "/" for size in range(len(parts), 0, -1))
            nearest += [folder for folder in above if any(folder + name in self.texts for name in MODULE_DOCUMENTS)][:1]
        return self.of_modules(nearest)
