"""Gives drafted steps valid ids, and dependencies that exist and form no cycle."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from tasks.rules.validation import cycles, name_cycle

MAX_ID = 56  # of the 64 on the wire: leaves capacity for the number of a part

_NO_ID = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class NamedStep:
    """The name, title and dependencies of a drafted step, in its drafter's words."""

    name: str
    title: str
    waits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StepOrder:
    """The id of each drafted step, the positions of the steps that it waits for, and the faults of the draft."""

    ids: tuple[str, ...]
    waits: tuple[tuple[int, ...], ...]
    faults: tuple[tuple[str, str], ...]  # pointer and sentence


def slug(name: str, size: int = MAX_ID) -> str:
    """Return `name` as an id: in lower case, hyphens in place of other characters, and at most `size` long."""
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return _NO_ID.sub("-", folded).strip("-")[:size].strip("-")


def free_name(name: str, taken: set[str]) -> str:
    """Return `name` if it is free, else `name` with the first free number; add the result to `taken`."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    taken.add(found)
    return found


def order_steps(steps: Sequence[NamedStep], taken: set[str]) -> StepOrder:
    """Give every step a unique id, and replace the names of its dependencies by positions.

    A repeated name is a fault. An unknown or circular dependency is a fault, too, and is removed. If no step names a
    dependency, each step waits for the step before it in the list.
    """
    ids = tuple(free_name(slug(step.name) or f"step-{number}", taken) for number, step in enumerate(steps, 1))
    names = [step.name for step in steps]
    faults = [(f"/steps/{at}/id", "an earlier step has this id") for at, name in enumerate(names) if name in names[:at]]
    if not any(step.waits for step in steps):
        return StepOrder(ids, tuple((at - 1,) if at else () for at in range(len(steps))), tuple(faults))
    waits = _resolve(steps, faults)
    _untie(ids, waits, faults)
    return StepOrder(ids, tuple(map(tuple, waits)), tuple(faults))


def _resolve(steps: Sequence[NamedStep], faults: list[tuple[str, str]]) -> list[list[int]]:
    """Find the dependencies by name, else by id, else by title."""
    names = [step.name.strip() for step in steps]
    slugs = [slug(step.name) for step in steps]
    titles = [step.title.strip().casefold() for step in steps]
    known: dict[str, int] = {}
    for words in (names, slugs, titles):
        for at, word in enumerate(words):
            known.setdefault(word, at)
    waits: list[list[int]] = []
    for at, step in enumerate(steps):
        found: dict[int, None] = {}
        for number, each in enumerate(step.waits):
            target = known.get(each.strip(), known.get(slug(each) or " ", known.get(each.strip().casefold())))
            if target is None or target == at:
                why = "there is no such step" if target is None else "a step cannot wait for itself"
                faults.append((f"/steps/{at}/dependencies/{number}", why))
            else:
                found[target] = None
        waits.append(list(found))
    return waits


def _untie(ids: Sequence[str], waits: list[list[int]], faults: list[tuple[str, str]]) -> None:
    """Remove one dependency of every cycle, from the step that is first in the list, and add a fault."""
    position = {name: at for at, name in enumerate(ids)}
    while found := next(cycles({name: [ids[each] for each in waits[at]] for name, at in position.items()}), None):
        circle = [position[name] for name in found]
        first = circle.index(min(circle))
        at, target = circle[first], circle[(first + 1) % len(circle)]
        waits[at].remove(target)
        faults.append((f"/steps/{at}/dependencies", f"these steps wait for each other: {name_cycle(found)}"))
