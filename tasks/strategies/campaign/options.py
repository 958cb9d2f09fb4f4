"""The two ways out that a question offers, and what choosing one of them means for the plan (seed 003, "Options")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.campaign import Relevance
from tasks.strategies.campaign.coherence import Trigger
from tasks.strategies.campaign.state import Known, Seen
from tasks.text.fields import fit
from tasks.toolchain.files import Role, having

MAX_CHOSEN = 10  # files that one letter may choose


@dataclass(frozen=True, slots=True)
class Option:
    """A reading, what it does to the tasks, and what is known once it is chosen."""

    reading: str
    result: str
    update: Mapping[str, Any]


def options(trigger: Trigger, known: Known, allowed: Sequence[str]) -> tuple[Option, Option]:
    """Offer A and B for what blocks the plan."""
    return _OFFERS[trigger](known, allowed)


def meaning(known: Known, paths: Sequence[str]) -> dict[str, Any]:
    """Make these files the ones that are meant; what is known of them stays."""
    seen = {each.path: each for each in known.candidates}
    high = {"relevance": Relevance.HIGH}
    meant = (seen.get(path, Seen(path=path, relevance=Relevance.HIGH)) for path in dict.fromkeys(paths))
    return {"candidates": tuple(each.model_copy(update=high) for each in meant), "confirmed": True, "narrowed": True}


def _delta(known: Known, allowed: Sequence[str]) -> tuple[Option, Option]:
    sources = (having(allowed, Role.SOURCE, Role.MANIFEST, Role.DOCUMENT) or tuple(allowed))[:MAX_CHOSEN]
    everything = {**meaning(known, sources), "narrowed": False}  # a drafter may choose the others too
    few = tuple(each.path for each in known.candidates)[:MAX_CHOSEN] or sources[:1]
    return (
        Option("what the goal allows is meant", f"tasks change {_named(sources)}", everything),
        Option("the least is meant", f"tasks change {_named(few)}", meaning(known, few)),
    )


def _tests(_: Known, allowed: Sequence[str]) -> tuple[Option, Option]:
    tests = having(allowed, Role.TEST)[:MAX_CHOSEN]
    where = _named(tests) if tests else "the place that is usual for the language"
    return (
        Option(
            f"the tests are {where}",
            "a SPEC task writes them first" if tests else "no SPEC task, since the goal allows no test file",
            {"test_pattern": tests[0] if tests else "the usual place"},
        ),
        Option("nothing new is to be tested", "no SPEC task; the tests there are must pass", {"untested": True}),
    )


def _command(_: Known, __: Sequence[str]) -> tuple[Option, Option]:
    return (
        Option("the project is tested as Python is", "tasks are verified by pytest", {"language": "python"}),
        Option("the project is tested as JavaScript is", "tasks are verified by npm", {"language": "javascript"}),
    )


def _approach(known: Known, _: Sequence[str]) -> tuple[Option, Option]:
    first, second = known.readings
    return _reading(known, first), _reading(known, second)


def _reading(known: Known, words: str) -> Option:
    """Choose one side of an "or", and the candidates that it names where it names any."""
    named = tuple(each for each in known.candidates if _mentions(words, each.path))
    update = {"reading": words, "readings": (), "candidates": named or known.candidates}
    return Option(f'"{words}"', "every task is for this alone", update)


def _mentions(words: str, path: str) -> bool:
    name = path.rpartition("/")[2].partition(".")[0].lower()
    return name in words.lower().replace("/", " ").replace(".", " ").split()


def _several(known: Known, _: Sequence[str]) -> tuple[Option, Option]:
    high = tuple(each.path for each in known.candidates if each.relevance is Relevance.HIGH)
    rest = tuple(each.path for each in known.candidates if each.relevance is Relevance.MEDIUM)
    return (
        Option("all of them are meant", f"tasks change {_named(high)}", meaning(known, (*high, *rest))),
        Option("only the first is meant", f"tasks change {high[0]}", meaning(known, high[:1])),
    )


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return fit(", ".join(paths[:3]), 200) + more


_OFFERS: Mapping[Trigger, Callable[[Known, Sequence[str]], tuple[Option, Option]]] = {
    Trigger.DELTA: _delta,
    Trigger.TESTS: _tests,
    Trigger.COMMAND: _command,
    Trigger.APPROACH: _approach,
    Trigger.SEVERAL: _several,
}
