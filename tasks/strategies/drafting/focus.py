"""Finds the likely places of a goal: those that its log, its failing tests and its words name, each with a reason.

A place permits nothing. All input comes from outside, and only chooses among files that the goal allows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from schemas.goal import Definition, GoalContext
from schemas.step import MAX_FOCUS, Place
from tasks.text.paths import clean
from tasks.toolchain.files import Role, name_of, role_of, stem_of, subject_of

TRACED, DEFINED, TESTED, IMPORTED, NAMED = (
    "The failure names it.",
    "It defines {}, which the goal names.",
    "{} is named after it.",
    "{} imports it.",
    "The goal names it.",
)
MAX_LOG = 64_000  # characters of a log that are read, from its end
MAX_WORDS = 2000
MAX_DEFINITIONS = 2000
MOST_ALIKE = 3  # files of one name that a word may mean
LEAST_STEM = 3  # characters of a name that is searched among words

_AT = re.compile(
    r"[Ff]ile \"(?P<quoted>[^\"\n]{1,400})\", line (?P<at>\d{1,7})"
    r"|(?P<path>[^\s:'\"()<>|,;=`\[\]]{1,400}):(?P<line>\d{1,7})"
)
_WORD = re.compile(r"[\w./@+-]{1,200}")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,199}(?:\.[A-Za-z_]\w{0,199})*")
_IMPORT = re.compile(
    r"(?:^|[^\w.])(?:from|import|require\(|use|mod|include)\s*[\"'<(]?([\w./@:-]{2,200})", re.MULTILINE
)
_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class Focus:
    """Searches `files` for the likely places of a goal; `is_last_first` if a trace ends with its deepest call."""

    files: Sequence[str]
    is_last_first: bool = False

    def places(self, sentence: str, context: GoalContext) -> tuple[Place, ...]:
        """Return the likeliest places, each file once."""
        found: dict[str, Place] = {}
        tests = tuple(dict.fromkeys(file_of_test(test) for test in context.failing_tests))
        for place in (
            *self._traced(context.failure_log or ""),
            *self._defining(sentence, context.definitions),
            *self._tested(tests),
            *self._imported(tests, context.documents),
            *self._named(sentence),
        ):
            found.setdefault(place.path, place)
        return tuple(found.values())[:MAX_FOCUS]

    def _traced(self, log: str) -> Iterator[Place]:
        hits = ((self.find(hit["quoted"] or hit["path"]), hit) for hit in _AT.finditer(log[-MAX_LOG:]))
        seen = [Place(path=path, lines=hit["at"] or hit["line"], why=TRACED) for path, hit in hits if path]
        if self.is_last_first:
            seen.reverse()
        return iter(sorted(seen, key=lambda place: role_of(place.path) is not Role.SOURCE))

    def _defining(self, sentence: str, definitions: Mapping[str, Sequence[Definition]]) -> Iterator[Place]:
        """Yield the definitions of the sentence's names in their exact form, except names with many definitions."""
        known = ((path, each) for named, some in definitions.items() if (path := self.find(named)) for each in some)
        places: dict[str, list[tuple[str, Definition]]] = {}
        for path, each in islice(known, MAX_DEFINITIONS):
            for name in {each.name, each.name.rpartition(".")[2]}:
                places.setdefault(name, []).append((path, each))
        for name in dict.fromkeys(_IDENTIFIER.findall(sentence)[:MAX_WORDS]):
            found = places.get(name, ())
            for path, each in found if len(found) <= MOST_ALIKE else ():
                is_longer = each.end_line is not None and each.end_line > each.line
                lines = f"{each.line}-{each.end_line}" if is_longer else str(each.line)
                yield Place(path=path, lines=lines, why=DEFINED.format(name)[:200])

    def _tested(self, tests: Iterable[str]) -> Iterator[Place]:
        for test in tests:
            own = set(test.split("/")[:-1])
            alike = [path for path in self._by_stem.get(subject_of(test), ()) if role_of(path) is Role.SOURCE]
            for path in sorted(alike, key=lambda path: -len(own.intersection(path.split("/"))))[:MOST_ALIKE]:
                yield Place(path=path, why=TESTED.format(test)[:200])

    def _imported(self, tests: Iterable[str], documents: Mapping[str, str]) -> Iterator[Place]:
        known = frozenset(tests)
        shown = self.imports({path: text for path, text in documents.items() if clean(path) in known})
        for test in tests:
            for path in shown.get(test, ()):
                yield Place(path=path, why=IMPORTED.format(test)[:200])

    def imports(self, documents: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Return the files that each document imports, by the document's path; leave out documents without imports."""
        found: dict[str, tuple[str, ...]] = {}
        for name, text in documents.items():
            modules = map(self._of_module, _IMPORT.findall(text[:MAX_LOG]))
            if paths := tuple(dict.fromkeys(path for path in modules if path)):
                found[clean(name)] = paths
        return found

    def _of_module(self, module: str) -> str | None:
        parts = [part for part in re.split(r"[./:]+", module) if part]
        for size in range(len(parts), 0, -1):
            tail = parts[:size]
            near = [path for path in self._by_stem.get(tail[-1].casefold(), ()) if _ends(_parts(path), tail)]
            if len(near) == 1:
                return near[0]
        return None

    def _named(self, sentence: str) -> Iterator[Place]:
        words = dict.fromkeys(word.strip(".") for word in _WORD.findall(sentence)[:MAX_WORDS])
        for word in words:
            if path := self.find(word):
                yield Place(path=path, why=NAMED)
        for word in words:
            for name in dict.fromkeys((word.casefold(), *(part.casefold() for part in _UPPER.split(word)))):
                alike = self._by_stem.get(name, ()) if len(name) >= LEAST_STEM else ()
                if len(alike) <= MOST_ALIKE:
                    yield from (Place(path=path, why=NAMED) for path in alike)

    def find(self, mention: str) -> str | None:
        """Return the one known file that `mention` means; None if there is none, or if several files fit.

        A mention may be the whole path, the end of a path, or a path with folders of a checkout in front.
        """
        path = clean(mention.replace("\\", "/"))
        named = self._by_name.get(name_of(path), ())
        parts = path.split("/")
        near = [known for known in named if _ends(parts, known.split("/"))]
        if near:
            return max(near, key=len)
        longer = [known for known in named if _ends(known.split("/"), parts)]
        return longer[0] if len(longer) == 1 else None

    @cached_property
    def _by_name(self) -> Mapping[str, Sequence[str]]:
        return _index(self.files, name_of)

    @cached_property
    def _by_stem(self) -> Mapping[str, Sequence[str]]:
        return _index(self.files, stem_of)


def file_of_test(test: str) -> str:
    """Return the file in the name of a test, such as `tests/test_a.py::test_x`."""
    return clean(test.partition("::")[0].partition(" > ")[0].strip())


def _index(files: Iterable[str], key: Callable[[str], str]) -> dict[str, list[str]]:
    index: dict[str, list[str]] = {}
    for path in files:
        index.setdefault(key(path), []).append(path)
    return index


def _parts(path: str) -> list[str]:
    """Return a path as the parts of a module name: its folders and its name without suffix."""
    *folders, name = path.split("/")
    return [*folders, name.partition(".")[0]]


def _ends(longer: Sequence[str], shorter: Sequence[str]) -> bool:
    return len(shorter) <= len(longer) and list(longer[len(longer) - len(shorter) :]) == list(shorter)
