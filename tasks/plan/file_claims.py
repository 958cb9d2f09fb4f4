"""Which plans of a repository claim which files: what was read of it, and who waits for whom.

A file's claims stand in the order in which they came, as one text: the plans' ids with blanks between, `?` before that
of a plan which waits for those before it. A claim is given back at the end of its plan (`file_claims.lua`). Thousands
of plans may want one file: decisions are given, and logs keep, a short text, in which `+n` stands for n claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile
from typing import Any

from schemas.base import Mode
from schemas.step import PlannedStep

WAITS = "?"
ROOT = "./"  # the folder of all files; the others end in / as well
WITHIN = "*"  # behind a folder: what is claimed in it, to be read
LEFT_OUT = "+"
WAITING = "waiting for "  # how a sentence of `tell_wait` begins
MOST_PLANS = 5  # told of a file
COUNTER = ""  # among the files of a repository: counts what changes who waits for whom


def claims_of(files: Iterable[str], focus: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """List what one step claims: the files that it names, where it looks first, and the folders of its patterns."""
    return list(dict.fromkeys((*files, *focus, *map(folder_of, patterns))))


def claimed_by(steps: Iterable[PlannedStep], *, wide: bool) -> list[str]:
    """List what steps claim that patch, each once; without `wide` what patterns mean is claimed by nobody."""
    claims = (
        claims_of(step.allowed_files, (place.path for place in step.focus), step.allowed_patterns if wide else ())
        for step in steps
        if step.mode is Mode.PATCH
    )
    return list(dict.fromkeys(each for found in claims for each in found))


def folder_of(pattern: str) -> str:
    """Name the folder that all files lie in which a pattern means."""
    folders = pattern.split("/")[:-1]
    literal = [*takewhile(lambda folder: "*" not in folder and "?" not in folder, folders)]
    return "/".join(literal) + "/" if literal else ROOT


def folders_around(claimed: str) -> list[str]:
    """List the folders around a file or a folder, from the outside."""
    parts = claimed.rstrip("/").split("/")
    return [] if claimed == ROOT else [ROOT, *("/".join(parts[:number]) + "/" for number in range(1, len(parts)))]


def asked_for(claimed: Iterable[str]) -> list[str]:
    """List of what claims have to be read where folders count: also those around, and what is claimed in a folder."""
    near = ((*folders_around(one), one, *([one + WITHIN] if one.endswith("/") else ())) for one in claimed)
    return list(dict.fromkeys(each for found in near for each in found))


def overlapping(claimed: Sequence[str], others: Iterable[str]) -> list[str]:
    """List those of `others` that lie in, or around, what is claimed, but are not the same."""
    own = frozenset(claimed)
    around = frozenset(folder for one in claimed for folder in folders_around(one))
    near = (each for each in others if each and each not in own)
    return [each for each in near if each in around or not own.isdisjoint(folders_around(each))]


def tell_wait(file: str, plan_id: str) -> str:
    """Return what a plan or a step waits for."""
    return f"{WAITING}{file}: {plan_id}"


def plan_of(claim: str) -> str:
    """Name the plan whose claim that is."""
    return claim.removeprefix(WAITS)


def plans_of(text: str) -> list[str]:
    """List the plans that are named among the claims on a file, in order."""
    return [plan_of(each) for each in text.split() if not each.startswith(LEFT_OUT)]


def count_claims(text: str) -> int:
    """Count the claims on a file."""
    return sum(_weight(each) for each in text.split())


def last_of(text: str) -> str:
    """Name the plan whose claim is the last; empty where there is none."""
    return plan_of(text.rpartition(" ")[2])


def before(text: str, claim: str) -> str:
    """Name the plan whose claim is directly before another one; empty where none is."""
    claims = text.split()
    place = claims.index(claim) if claim in claims else 0
    return plan_of(claims[place - 1]) if place else ""


def shorten(text: str, me: str = "", most: int = MOST_PLANS) -> str:
    """Leave the first `most` claims on a file and the last, or for 0 neither; and that of `me` with the one before.

    A text that was shortened so before may have grown at its end.
    """
    claims, kept, left = text.split(), list[str](), 0
    own = next((place for place, each in enumerate(claims) if plan_of(each) == me), -1) if me else -1
    shown = {*range(most), *([own - 1, own] if own >= 0 else ()), *([len(claims) - 1] if most else ())}
    for place, each in enumerate(claims):
        if place in shown and not each.startswith(LEFT_OUT):
            kept += [f"{LEFT_OUT}{left}", each] if left else [each]
            left = 0
        else:
            left += _weight(each)
    return " ".join([*kept, f"{LEFT_OUT}{left}"] if left else kept)


def mark_of(text: str) -> str:
    """Tell the claims on a file apart from those that stand there once others came or went, as claims_text.lua does."""
    return f"{len(text)} {text.rpartition(' ')[2]}" if text else "0"


def _weight(claim: str) -> int:
    return int(claim) if claim.startswith(LEFT_OUT) else 1


@dataclass(frozen=True, slots=True)
class FileClaims:
    """What was read of the claims in one repository.

    `files` has the claims of each file that somebody claims, among those that were read; `plans` the files of plans, of
    which those matter that they wait for: of the plan that asks, and where that was asked for of those that were met.
    `asked` are the files that were asked for, None for all that matter; `deep` says whether it was asked who waits for
    whom. A decision is given what `short_for` leaves: instead of others' files `behind`, the first plan of those that
    claim a file which waits for the one that asks. `marks` says of each file what a commit is to find (`mark_of`).
    """

    files: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, Sequence[str]] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict, compare=False)
    asked: frozenset[str] | None = field(default=None, compare=False)
    deep: bool = field(default=True, compare=False)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> FileClaims:
        """Read what `tell` told."""
        return cls(told.get("files", {}), told.get("plans", {}), told.get("behind", {}))

    def tell(self) -> dict[str, Any]:
        """Return what was read, for a plan's log."""
        plans = {plan: list(files) for plan, files in self.plans.items()}
        told = {"files": dict(self.files), "plans": plans, "behind": dict(self.behind)}
        return {name: part for name, part in told.items() if part}

    def knows(self, files: Iterable[str], *, deep: bool) -> bool:
        """Whether the claims of these files were read, and as deep."""
        return self.deep >= deep and (self.asked is None or self.asked.issuperset(files))

    def of(self, file: str) -> str:
        """Give the claims on a file."""
        return self.files.get(file, "")

    def mark(self, file: str) -> str:
        """Return what a commit is to find of the claims on a file."""
        return self.marks.get(file) or mark_of(self.of(file))

    def are_others(self, me: str) -> bool:
        """Whether others than the plan `me` claim anything."""
        return any(plan_of(each) != me for file, text in self.files.items() if file for each in text.split())

    def cut(self, files: Iterable[str], most: int) -> FileClaims:
        """Leave what a plan that is yet to be has to know of these files: of more than `most` only how many claims."""
        found = [file for file in files if file in self.files]
        kept = {file: self.files[file] for file in found}
        kept |= {file: f"{LEFT_OUT}{count_claims(kept[file])}" for file in islice(found, most, None)}
        return FileClaims(kept, marks={file: self.mark(file) for file in found})

    def updated(self, known: Mapping[str, tuple[str, str]]) -> FileClaims:
        """Put what is known of files, their claims and the mark of these, in the place of what was read."""
        files = {**self.files, **{file: text for file, (text, _) in known.items()}}
        return replace(self, files=files, marks={**self.marks, **{file: mark for file, (_, mark) in known.items()}})

    def joined(self, file: str, claim: str) -> tuple[str, str]:
        """Give the claims on a file, and their mark, once a claim has come to their end."""
        size, text = int(self.mark(file).split()[0]), self.of(file)
        return shorten(f"{text} {claim}".strip()), f"{size + bool(size) + len(claim)} {claim}"

    def short_for(self, me: str, asked: Iterable[str]) -> FileClaims:
        """Shorten what was read to what a decision of the plan `me` about the files `asked` rests on."""
        asked = self._named(asked)
        behind = self._first_behind(me, [file for file in asked if me not in plans_of(self.files[file])])
        files = {file: shorten(self.files[file], behind.get(file, me)) for file in asked}
        own = self.plans.get(me, ())
        files |= {file: shorten(self.files[file], me, 0) for file in own if file in self.files.keys() - files.keys()}
        files |= {COUNTER: self.files[COUNTER]} if COUNTER in self.files else {}
        marks = {file: self.mark(file) for file in files}
        return FileClaims(files, {me: own} if me else {}, behind, marks, self.asked, self.deep)

    def _named(self, asked: Iterable[str]) -> list[str]:
        """List the files with claims that were asked for, also within folders."""
        asked = list(asked)
        folders = tuple("" if each == ROOT + WITHIN else each[:-1] for each in asked if each.endswith("/" + WITHIN))
        within = (file for file in self.files if file and folders and file.startswith(folders))
        return [*dict.fromkeys((*(file for file in asked if file in self.files), *within))]

    def _first_behind(self, me: str, files: Iterable[str]) -> Mapping[str, str]:
        """Find of each file the first plan that claims it and waits for the plan `me`; none where none does."""
        waiting = self.waiting_for(me)
        found = {file: next(filter(waiting.__contains__, plans_of(self.of(file))), "") for file in files}
        return {file: plan for file, plan in found.items() if plan}

    def waiting_for(self, me: str) -> set[str]:
        """Find the plans that wait for a plan, or for one that does, and so on: each claim is looked at once."""
        lists = [text.split() for file, text in self.files.items() if file]
        places = defaultdict[str, list[tuple[int, int]]](list)  # plan -> where its claims stand
        for number, claims in enumerate(lists):
            for place, each in enumerate(claims):
                places[plan_of(each)].append((number, place))
        told = [len(claims) for claims in lists]  # all behind that are found
        found, open_plans = set[str](), [me]
        while open_plans:
            for number, place in places[open_plans.pop()]:
                for plan in _waiting(lists[number][place + 1 : told[number]]):
                    if plan not in found:
                        found.add(plan)
                        open_plans.append(plan)
                told[number] = min(told[number], place + 1)
        return found


def _waiting(claims: Iterable[str]) -> Iterator[str]:
    return (plan_of(each) for each in claims if each.startswith(WAITS))
