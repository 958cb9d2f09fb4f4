"""What the modules concerned say of themselves: CONTRACT.md and SPEC.md (seed 000, "FileSystemPort").

The planner reads no repository: the goal carries the texts. They are untrusted: they name files among those that are
known, and a gist of them goes to the controller, sanitised.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tasks.strategies.gap_report.places import Places
from tasks.text.fields import fit
from tasks.text.paths import clean, fault

NAMES = ("CONTRACT.md", "SPEC.md")
MAX_READ = 20_000  # characters of a document
MAX_GIST = 300
MAX_HEADINGS = 8

_HEADING = re.compile(r"^#{1,4}[ \t]+(\S[^\n]{0,200})", re.MULTILINE)
_FIRST = re.compile(r"^(?![ \t]*(?:#|```|---|\||$))[ \t]*(\S[^\n]*)", re.MULTILINE)
_CODE = re.compile(r"`([\w./@+-]{1,200}\.\w{1,8})`|^[ \t│├└─*+-]{1,60}([\w./@+-]{1,200}\.\w{1,8})\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModuleDocument:
    """One of a module's two documents."""

    path: str
    folder: str  # with a slash
    text: str

    @property
    def gist(self) -> str:
        """Say in a line what it is about: its first sentence, then its headings."""
        first = _FIRST.search(self.text)
        headings = _HEADING.findall(self.text)[:MAX_HEADINGS]
        return fit("; ".join(filter(None, (first[1] if first else "", *headings))), MAX_GIST)

    def named(self, places: Places) -> tuple[str, ...]:
        """List the files of the module that the document names, in order; known ones, else those to be made."""
        words = [one or other for one, other in _CODE.findall(self.text)]
        paths = dict.fromkeys(_below(self.folder, clean(word)) for word in words if not word.endswith(NAMES))
        known = set(places.within(self.folder))
        return tuple(path for path in paths if path in known) or tuple(
            path for path in paths if not known and fault(path, places.forbidden) is None
        )


@dataclass(frozen=True, slots=True)
class Documents:
    """The port to a project's documents: what the goal brought along of them."""

    texts: Mapping[str, str]

    @classmethod
    def of(cls, *sources: Mapping[str, str]) -> Documents:
        """Put sources together, the later over the earlier."""
        return cls({clean(path): text for source in sources for path, text in source.items()})

    def of_modules(self, folders: Iterable[str]) -> tuple[ModuleDocument, ...]:
        """Read the documents of these folders, which end with a slash."""
        return tuple(
            ModuleDocument(f"{folder}{name}", folder, text[:MAX_READ])
            for folder in dict.fromkeys(folders)
            for name in NAMES
            if (text := self.texts.get(f"{folder}{name}"))
        )

    def around(self, files: Iterable[str]) -> tuple[ModuleDocument, ...]:
        """Read the documents of the nearest folder above each of `files` that has any."""
        return self.of_modules(folder for path in files if (folder := self._nearest(path)))

    def _nearest(self, path: str) -> str | None:
        parts = path.split("/")[:-1]
        above = ("/".join(parts[:size]) + "/" for size in range(len(parts), 0, -1))
        return next((folder for folder in above if any(folder + name in self.texts for name in NAMES)), None)


def _below(folder: str, word: str) -> str:
    return word if word.startswith(folder) else folder + word.lstrip("/")
