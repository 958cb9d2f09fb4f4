"""The claims of a repository's plans on files: the claims that were read, and which plan waits for which.

The claims on a file are one text, oldest first: plan ids separated by blanks. A `?` before an id marks a plan that
waits for the plans before it. The plan's end gives its claims back (`file_claims.lua`). Thousands of plans may claim
one file, so decisions and logs get a shortened text, where `+n` replaces n claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice, takewhile
from typing import Any

from schemas.base import Mode
from schemas.step import PlannedStep

WAITS = "?"
ROOT = "./"  # the folder of all files; other folders end in / as well
WITHIN = "*"  # after a folder: also read the claims inside of it
LEFT_OUT = "+"
MARK = "//"  # begins what plans claim that is no file: `mark_of_same`
REVIEW = MARK + "the review of an open change"  # claimed by one of them while the repository takes no new work
JUST_MERGED = MARK + "just merged: "  # begins the marks that a merged change keeps for a day
WAITING = "waiting for "  # prefix of the sentence of `wait_reason`
MOST_PLANS = 5  # reported for one file
COUNTER = ""  # key next to the files of a repository: counts the changes of waits


def claims_of(files: Iterable[str], focus: Iterable[str], patterns: Iterable[str]) -> list[str]:
    """List the claims of one step: the files that it names, the files of its focus, and the folders of its patterns."""
    return list(dict.fromkeys((*files, *focus, *map(folder_of, patterns))))


def claimed_by(steps: Iterable[PlannedStep], *, wide: bool) -> list[str]:
    """List the claims of the steps that patch, each once; without `wide` the folders of patterns are not claimed."""
    claims = (
        claims_of(step.allowed_files, (place.path for place in step.focus), step.allowed_patterns if wide else ())
        for step in steps
        if step.mode is Mode.PATCH
    )
    return list(dict.fromkeys(each for found in claims for each in found))


def folder_of(pattern: str) -> str:
    """Return the deepest folder that contains all files which match a pattern."""
    folders = pattern.split("/")[:-1]
    literal = [*takewhile(lambda folder: "*" not in folder and "?" not in folder, folders)]
    return "/".join(literal) + "/" if literal else ROOT


def folders_around(claimed: str) -> list[str]:
    """List the folders that contain a file or a folder, outermost first."""
    parts = claimed.rstrip("/").split("/")
    return [] if claimed == ROOT else [ROOT, *("/".join(parts[:number]) + "/" for number in range(1, len(parts)))]


def asked_for(claimed: Iterable[str]) -> list[str]:
    """List the names to read if folders count: the claims, the folders around them, and the contents of folders."""
    near = ((*folders_around(one), one, *([one + WITHIN] if one.endswith("/") else ())) for one in claimed)
    return list(dict.fromkeys(each for found in near for each in found))


def overlapping(claimed: Sequence[str], others: Iterable[str]) -> list[str]:
    """List those of `others` that are inside or around a claimed file or folder, but are not claimed themselves."""
    own = frozenset(claimed)
    around = frozenset(folder for one in claimed for folder in folders_around(one))
    near = (each for each in others if each and each not in own and not each.startswith(MARK))
    return [each for each in near if each in around or not own.isdisjoint(folders_around(each))]


def wait_reason(file: str, plan_id: str) -> str:
    """Return the sentence about the file and the plan that a plan or a step waits for."""
    return f"{WAITING}{file.removeprefix(MARK).partition('/')[0] if file.startswith(MARK) else file}: {plan_id}"


def just_merged(mark: str) -> str:
    """Return the claim of a merged change that had `mark` while it was open."""
    return JUST_MERGED + mark.removeprefix(MARK)


def mark_of_same(what: str, of: object) -> str:
    """Return the name of a claim on something other than a file: a hash of `of`, which people read as `what`."""
    return f"{MARK}{what}/{blake2b(repr(of).encode(), digest_size=16).hexdigest()}"


def plan_of(claim: str) -> str:
    """Return the id of the plan that has a claim."""
    return claim.removeprefix(WAITS)


def plans_of(text: str) -> list[str]:
    """List the ids of the plans in the claims on a file, in order."""
    return [plan_of(each) for each in text.split() if not each.startswith(LEFT_OUT)]


def count_claims(text: str) -> int:
    """Count the claims on a file, also the claims that a shortened text leaves out."""
    return sum(_weight(each) for each in text.split())


def last_of(text: str) -> str:
    """Return the plan with the last claim; empty if there is none."""
    return plan_of(text.rpartition(" ")[2])


def before(text: str, claim: str) -> str:
    """Return the plan whose claim is directly before `claim`; empty if there is none."""
    claims = text.split()
    place = claims.index(claim) if claim in claims else 0
    return plan_of(claims[place - 1]) if place else ""


def shorten(text: str, me: str = "", most: int = MOST_PLANS) -> str:
    """Shorten the claims on a file to the first `most` and the last one, plus the claim of `me` and the one before it.

    With `most` 0 only the claim of `me` and the one before it stay. The text may be a shortened one with new claims at
    its end.
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
    """Return the mark that shows whether the claims on a file have changed: their length and the last claim.

    claims_text.lua computes the same mark.
    """
    return f"{len(text)} {text.rpartition(' ')[2]}" if text else "0"


def _weight(claim: str) -> int:
    return int(claim) if claim.startswith(LEFT_OUT) else 1


@dataclass(frozen=True, slots=True)
class FileClaims:
    """The claims that were read in one repository.

    `files` contains the claims on each file that was read. `plans` contains the files that the asking plan claims; if
    `deep`, also the files of plans that were found on the way. `asked` are the files that were asked for, or None if
    all files that matter were read. If `deep`, the waits of plans were read, too. `marks` contains the mark of each
    file that the commit has to find (`mark_of`).

    `short_for` returns a short form for one decision. In this form `behind` replaces the files of other plans. For each
    file it contains the first plan that claims the file and waits for the asking plan.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    plans: Mapping[str, Sequence[str]] = field(default_factory=dict)
    behind: Mapping[str, str] = field(default_factory=dict)
    marks: Mapping[str, str] = field(default_factory=dict, compare=False)
    asked: frozenset[str] | None = field(default=None, compare=False)
    deep: bool = field(default=True, compare=False)

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> FileClaims:
        """Read the value that `tell` returned."""
        return cls(told.get("files", {}), told.get("plans", {}), told.get("behind", {}))

    def tell(self) -> dict[str, Any]:
        """Return the claims that were read, for a plan's log."""
        plans = {plan: list(files) for plan, files in self.plans.items()}
        told = {"files": dict(self.files), "plans": plans, "behind": dict(self.behind)}
        return {name: part for name, part in told.items() if part}

    def knows(self, files: Iterable[str], *, deep: bool) -> bool:
        """Return whether the claims on these files were read, and with `deep` the waits of plans, too."""
        return self.deep >= deep and (self.asked is None or self.asked.issuperset(files))

    def of(self, file: str) -> str:
        """Return the claims on a file; empty if there are none."""
        return self.files.get(file, "")

    def mark(self, file: str) -> str:
        """Return the mark of a file's claims that the commit has to find."""
        return self.marks.get(file) or mark_of(self.of(file))

    def are_others(self, me: str) -> bool:
        """Return whether a plan other than `me` claims a file."""
        return any(plan_of(each) != me for file, text in self.files.items() if file for each in text.split())

    def cut(self, files: Iterable[str], most: int) -> FileClaims:
        """Return the claims on these files alone.

        After the first `most` files, only the number of claims on each file stays.
        """
        found = [file for file in files if file in self.files]
        kept = {file: self.files[file] for file in found}
        kept |= {file: f"{LEFT_OUT}{count_claims(kept[file])}" for file in islice(found, most, None)}
        return FileClaims(kept, marks={file: self.mark(file) for file in found})

    def updated(self, known: Mapping[str, tuple[str, str]]) -> FileClaims:
        """Replace the claims of files, and their marks, by newer ones."""
        files = {**self.files, **{file: text for file, (text, _) in known.items()}}
        return replace(self, files=files, marks={**self.marks, **{file: mark for file, (_, mark) in known.items()}})

    def joined(self, file: str, claim: str) -> tuple[str, str]:
        """Return the claims on a file and their mark after `claim` is appended."""
        size, text = int(self.mark(file).split()[0]), self.of(file)
        return shorten(f"{text} {claim}".strip()), f"{size + bool(size) + len(claim)} {claim}"

    def short_for(self, me: str, asked: Iterable[str]) -> FileClaims:
        """Shorten the claims to those that a decision of the plan `me` about the files `asked` needs."""
        asked = self._named(asked)
        behind = self._first_behind(me, [file for file in asked if me not in plans_of(self.files[file])])
        files = {file: shorten(self.files[file], behind.get(file, me)) for file in asked}
        own = self.plans.get(me, ())
        files |= {file: shorten(self.files[file], me, 0) for file in own if file in self.files.keys() - files.keys()}
        files |= {COUNTER: self.files[COUNTER]} if COUNTER in self.files else {}
        marks = {file: self.mark(file) for file in files}
        return FileClaims(files, {me: own} if me else {}, behind, marks, self.asked, self.deep)

    def _named(self, asked: Iterable[str]) -> list[str]:
        """List the files that have claims and were asked for, by name or by folder."""
        asked = list(asked)
        folders = tuple("" if each == ROOT + WITHIN else each[:-1] for each in asked if each.endswith("/" + WITHIN))
        within = (file for file in self.files if file and folders and file.startswith(folders))
        return [*dict.fromkeys((*(file for file in asked if file in self.files), *within))]

    def _first_behind(self, me: str, files: Iterable[str]) -> Mapping[str, str]:
        """Return, for each file that has one, the first plan that claims it and waits for `me`."""
        waiting = self.waiting_for(me)
        found = {file: next(filter(waiting.__contains__, plans_of(self.of(file))), "") for file in files}
        return {file: plan for file, plan in found.items() if plan}

    def waiting_for(self, me: str) -> set[str]:
        """Return the plans that wait for a plan directly or through other plans; each claim is visited once."""
        lists = [text.split() for file, text in self.files.items() if file]
        places = defaultdict[str, list[tuple[int, int]]](list)  # plan -> the places of its claims
        for number, claims in enumerate(lists):
            for place, each in enumerate(claims):
                places[plan_of(each)].append((number, place))
        told = [len(claims) for claims in lists]  # all claims after that place are found
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
