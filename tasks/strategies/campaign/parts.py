"""Finds the parts of an objective: its sections, the files that each section names, and alternatives joined by "or"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from schemas.kinds.campaign import PlanTask, TaskType
from tasks.strategies.campaign.sequence import is_akin
from tasks.strategies.campaign.state import Choice, Knowledge, Section
from tasks.text.fields import fit
from tasks.toolchain.files import Role, files_of, role_of, stem_of

MAX_SECTIONS, MAX_HEADING = 16, 100
MAX_FILES = 10  # files of a section
MAX_READ = 50_000  # characters of a section
MAX_CHOICES = 3  # questions about "or" to a person
MAX_SIDE, MAX_MEANT = 100, 300

_HEADER = re.compile(r"^##[ \t]+(\S.*)$", re.MULTILINE)
_FENCED = re.compile(r"^ {0,3}(`{3,}+|~{3,}+)[^\n]*\n.*?(?:^ {0,3}\1[`~]*[ \t\r]*$|\Z)", re.MULTILINE | re.DOTALL)
# Never part of "for", "error" or "or-tools", nor if it joins no alternatives: "or not", "one or more", "3.11 or later".
_OR = re.compile(
    r"(?<![\w-])or(?![\w-])(?!\s+(?:not|so|else|more|less|fewer|later|newer|older|earlier|higher|lower)\b)",
    re.IGNORECASE,
)
_LABELLED = re.compile(  # "Option A: in Redis"
    r"\b(?:option|approach|variant)\s+([A-C]|[1-3])\s*[:.)\u2013\u2014-]\s*(\S[^\n.;]*?)"
    r"(?=[\n.;]|,?\s*\b(?:option|approach|variant)\s|\Z)",
    re.IGNORECASE,
)
_INSTEAD = re.compile(r"\balternatively\b[\s,:]*", re.IGNORECASE)
_WHETHER = re.compile(r"\bwhether\b", re.IGNORECASE)
_SENTENCE = re.compile(r"\n|[.;!?](?=\s|$)")
_WORD = re.compile(r"[a-z]+|[0-9]+")
_PATH_LIKE = re.compile(r"[\w./-]+")
_JOINS_PATH = re.compile(r"[\w./-]")
_GOES_ON = re.compile(r"[\w/-]")
_ANYWHERE = frozenset({"main", "index", "app", "util", "init", "mod", "lib"})  # these do not describe their contents


def sections(objective: str) -> tuple[str, ...]:
    """Return the `##` headers of a text, without those in fenced blocks."""
    return tuple(heading for heading, _ in split_text(objective) if heading)


def split_text(objective: str) -> list[tuple[str, str]]:
    """Split a text into the part before its first `##` header, and each header with the part below it."""
    before, *rest = _HEADER.split(_FENCED.sub("", objective))
    return [("", before), *((heading.strip(), text) for heading, text in zip(rest[::2], rest[1::2], strict=True))]


def sections_of(objective: str, files: Sequence[str]) -> tuple[Section, ...]:
    """Return the sections of an objective, each with the files of `files` that its words name."""
    found = [(heading, text) for heading, text in split_text(objective) if heading][:MAX_SECTIONS]
    stems = {path: _words(stem_of(path)) for path in files if role_of(path) is not Role.TEST}
    return tuple(
        Section(heading=fit(heading, MAX_HEADING), files=_named(heading, text, stems)) for heading, text in found
    )


def _named(heading: str, text: str, stems: dict[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the files that a section names, most certain first: by path, in its header, or in the text below."""
    text = text[:MAX_READ]
    whole, above, below = f"{heading[:MAX_READ]}\n{text}", _words(heading[:MAX_READ]), _words(text)
    written = _paths_in(whole, longest=max(map(len, stems), default=0))
    ranks: dict[str, int] = {}
    for path, stem in stems.items():
        if path in written or (not _PATH_LIKE.fullmatch(path) and _stands_in(whole, path)):
            ranks[path] = 0
        elif stem and stem - _ANYWHERE and stem <= above:
            ranks[path] = 1
        elif stem and stem - _ANYWHERE and stem <= below:
            ranks[path] = 2
    return tuple(sorted(ranks, key=ranks.__getitem__)[:MAX_FILES])


def _paths_in(text: str, longest: int) -> frozenset[str]:
    """Return the words of a text that look like paths: each whole, and its part before each dot."""
    found: set[str] = set()
    for word in _PATH_LIKE.findall(text):
        ends = [at for at, letter in enumerate(word[: longest + 1]) if letter == "."]
        found.update(word[:end] for end in (*ends, len(word)))
    return frozenset(found)


def _stands_in(text: str, path: str) -> bool:
    """Return whether a text contains `path` as a whole path, not as a piece of a longer one."""
    at = text.find(path)
    while at >= 0:
        end = at + len(path)
        if not (at and _JOINS_PATH.match(text[at - 1])) and not _GOES_ON.match(text[end : end + 1]):
            return True
        at = text.find(path, at + 1)
    return False


def _words(text: str) -> frozenset[str]:
    """Return the words of a text or a name in lower case, with one form for singular and plural."""
    return frozenset(word.removesuffix("s") for word in _WORD.findall(text.casefold()) if len(word) > 1)


def choices(objective: str) -> tuple[Choice, ...]:
    """Return the open choices of an objective: the first "or" of each section, and of the text before the sections."""
    found = ((heading, readings(f"{heading}\n{text}")) for heading, text in split_text(objective))
    made = (Choice(section=fit(heading, MAX_HEADING), sides=sides) for heading, sides in found if sides)
    return tuple(made)[:MAX_CHOICES]


def readings(text: str) -> tuple[str, ...]:
    """Return the two alternatives that the first "or" of a text offers; empty if the text has no "or".

    In "Option A: ... Option B: ..." these are the first two options. Around "alternatively" these are the texts before
    and after the word.
    """
    labelled = {label.casefold(): fit(side.strip(" ,/"), MAX_SIDE) for label, side in _LABELLED.findall(text)}
    if len(labelled) > 1 and all(labelled.values()):
        return tuple(labelled.values())[:2]
    before = ""
    for sentence in _SENTENCE.split(text):
        first, *instead = _INSTEAD.split(sentence.strip("# \t"), maxsplit=1)
        sides = tuple(fit(side.strip(" ,/()"), MAX_SIDE) for side in (first.strip(" ,/()") or before, *instead))
        if len(sides) > 1 and all(sides):
            return sides
        before = first.strip() or before
        left, *right = _OR.split(sentence.strip("# \t"), maxsplit=1)
        sides = tuple(fit(side.strip(" ,/"), MAX_SIDE) for side in (left, *right))
        if len(sides) > 1 and all(sides) and not _WHETHER.search(left):
            return sides
    return ()


def sections_named(files: Sequence[str], known: Knowledge) -> tuple[str, ...]:
    """Return the headings of the sections that name one of these files, or the source file of one of these tests."""
    tests = files_of(files, Role.TEST)
    return tuple(
        part.heading
        for part in known.parts
        if any(path in files or any(is_akin(test, path) for test in tests) for path in part.files)
    )


def unplaced(known: Knowledge, tasks: Sequence[PlanTask]) -> list[str]:
    """Return the headings of the sections whose files no task changes."""
    changed = {path for task in tasks for path in (*task.delta, *(task.creates or ()))}
    return [part.heading for part in known.parts if changed.isdisjoint(part.files)]


def meant_lines(known: Knowledge) -> Iterator[str]:
    """Yield a sentence for each "or" that a person decided, with the alternatives that the person chose."""
    yield from map(_sentence, known.meant)


def meant_for(task: PlanTask, known: Knowledge) -> str:
    """Return the decisions of a person that concern a task, as one text.

    These are the decisions about the whole objective and about the task's sections. A task without sections gets the
    decisions about every section. A VERIFY gets only those about the whole objective.
    """
    mine, is_whole = task.sections or (), task.type is TaskType.VERIFY
    about_sections = (choice for choice in known.meant if choice.section and not is_whole)
    bound = (choice for choice in about_sections if not mine or choice.section in mine)
    about_all = (choice for choice in known.meant if not choice.section)
    return fit("; ".join(map(_sentence, (*about_all, *bound))), MAX_MEANT)


def _sentence(choice: Choice) -> str:
    sides = " and ".join(choice.sides)
    return f'under "{choice.section}": {sides}' if choice.section else sides
