"""Orders drafted steps: with valid ids, and dependencies on existing steps without cycles."""

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
    """The id of each step, the positions of its dependencies, and the faults."""

    ids: tuple[str, ...]
    waits: tuple[tuple[int, ...], ...]
    faults: tuple[tuple[str, str], ...]  # pointer and sentence


def slug(name: str, size: int = MAX_ID) -> str:
    """Return an id of the letters and digits in a name that an id may have."""
    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    return _NO_ID.sub("-", folded).strip("-")[:size].strip("-")


def free_name(name: str, taken: set[str]) -> str:
    """Return `name`, or `name` with the first free number; it is taken from then on."""
    found, number = name, 2
    while found in taken:
        found, number = f"{name}-{number}", number + 1
    taken.add(found)
    return found


def order_steps(steps: Sequence[NamedStep], taken: set[str]) -> StepOrder:
    """Give every step a unique id and resolve its dependencies.

    A name that is used twice, and an unknown or circular dependency, is a fault, and left out. If no step names a
    dependency, the steps depend on each other in the order of the list, as its drafter means.
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
    """Break every cycle at its first step in the list."""
    position = {name: at for at, name in enumerate(ids)}
    while found := next(cycles({name: [ids[each] for each in waits[at]] for name, at in position.items()}), None):
        circle = [position[name] for name in found]
        first = circle.index(min(circle))
        at, target = circle[first], circle[(first + 1) % len(circle)]
        waits[at].remove(target)
        faults.append((f"/steps/{at}/dependencies", f"these steps wait for each other: {name_cycle(found)}"))
