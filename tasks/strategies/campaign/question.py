"""COHERENCE_CHECK: decides whether a campaign can be planned, and writes the question to a person if it cannot.

Planning can go on if the files to change and their verification are known, and if no choice is open. An open choice is
an "or" of the objective, or several equally likely files. If tasks of the goal have unknown dependencies, the question
is only about these. The same facts always give the same page. A page offers two or three options, each with its effect
on the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from schemas.kinds.campaign import CoherenceDecision, Relevance
from tasks.strategies.campaign.state import CandidateFile, Choice, Knowledge, MissingParents
from tasks.text.fields import fit, opening
from tasks.toolchain.files import Role, files_of, name_of

SHOWN = 50  # characters of the objective
MAX_CHOSEN = 10  # files that one letter may choose


class Trigger(StrEnum):
    """The reason why a plan cannot go on."""

    DELTA = "delta"
    TESTS = "tests"
    COMMAND = "command"
    APPROACH = "approach"
    SEVERAL = "several"
    DEPENDS = "depends"


QUESTIONS = {
    Trigger.DELTA: "Which of the allowed files are to change?",
    Trigger.TESTS: "Where are the tests of this (a file, a folder or a pattern such as tests/test_*.py)?",
    Trigger.COMMAND: "Which command runs the tests?",
    Trigger.APPROACH: '{subject} says "or": which of the two is meant?',
    Trigger.SEVERAL: "Several files fit equally well: are all of them to change?",
    Trigger.DEPENDS: "{subject}, and there is no such task: what does it wait for?",
}


@dataclass(frozen=True, slots=True)
class Coherence:
    """The decision whether planning may go on, and the reasons to ask a person; the first reason made the decision."""

    decision: CoherenceDecision
    triggers: tuple[Trigger, ...] = ()
    sections: tuple[str, ...] = ()  # sections of the objective with an "or"; an empty text for all of it
    missing: tuple[MissingParents, ...] = ()

    @property
    def asked(self) -> tuple[tuple[Trigger, int], ...]:
        """The reason of each question, and the position of its "or" among the open ones, from 0."""
        many = {Trigger.APPROACH: max(1, len(self.sections))}
        return tuple((trigger, place) for trigger in self.triggers for place in range(many.get(trigger, 1)))

    @property
    def first_or(self) -> int:
        """The number of the first question about an "or"; 1 if there is none."""
        return next((number for number, (each, _) in enumerate(self.asked, 1) if each is Trigger.APPROACH), 1)

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions as sentences for people."""
        if self.missing:
            waits = (f"Task {each.seq} waits for {', '.join(each.names)[:SHOWN]}" for each in self.missing[:MAX_CHOSEN])
            return tuple(QUESTIONS[Trigger.DEPENDS].replace("{subject}", wait) for wait in waits)
        subjects = [f'The section "{each}"' if each else "The objective" for each in self.sections] or [""]
        return tuple(QUESTIONS[trigger].replace("{subject}", subjects[place]) for trigger, place in self.asked)


def likely_files(known: Knowledge) -> tuple[str, ...]:
    """Return the candidates for a change, without those of low relevance."""
    return tuple(each.path for each in known.candidates if each.relevance is not Relevance.LOW)


def _sure_files(known: Knowledge) -> tuple[str, ...]:
    return tuple(each.path for each in known.candidates if each.relevance is Relevance.HIGH)


# The first row whose condition is true decides; its arguments are the known facts, and whether tests can run.
ROWS: tuple[tuple[CoherenceDecision, Trigger, Callable[[Knowledge, bool], bool]], ...] = (
    (CoherenceDecision.CLARIFY, Trigger.DELTA, lambda known, _: not likely_files(known)),
    (CoherenceDecision.CLARIFY, Trigger.TESTS, lambda known, _: not known.test_pattern and not known.untested),
    (CoherenceDecision.CLARIFY, Trigger.COMMAND, lambda _, verifiable: not verifiable),
    (CoherenceDecision.CLARIFY, Trigger.APPROACH, lambda known, _: bool(known.choices) and len(known.candidates) != 1),
    (CoherenceDecision.CONFIRM, Trigger.SEVERAL, lambda known, _: len(_sure_files(known)) > 1 and not known.confirmed),
)


def check_coherence(known: Knowledge, verifiable: bool, *, documents: bool = False) -> Coherence:
    """Return the decision whether planning may go on, with the reasons to ask a person.

    `verifiable` is true if a command runs the tests. `documents` is true if only documents change, so no tests are
    needed.
    """
    if known.missing:
        return Coherence(CoherenceDecision.CLARIFY, (Trigger.DEPENDS,), missing=known.missing)
    of_tests = (Trigger.TESTS, Trigger.COMMAND) if documents else ()
    rows = (row for row in ROWS if row[1] not in of_tests)
    open_rows = [(decision, trigger) for decision, trigger, holds in rows if holds(known, verifiable)]
    if not open_rows:
        return Coherence(CoherenceDecision.PROCEED)
    decision = open_rows[0][0]
    triggers = tuple(trigger for each, trigger in open_rows if each is decision)
    return Coherence(decision, triggers, tuple(each.section for each in known.choices))


def page_of(coherence: Coherence, known: Knowledge, objective: str, allowed: Sequence[str]) -> str:
    """Return the question as a page (Markdown) for a written answer."""
    offered = (
        (letter if number == 1 else f"{number}{letter}", option)
        for number, options in enumerate(options_of(coherence, known, allowed), 1)
        for letter, option in zip("ABC", options, strict=False)
    )
    asked = [f"{number}. {each}" for number, each in enumerate(coherence.questions, 1)]
    lines = (
        "## Blocking Questions",
        *asked,
        "",
        "## What I Analyzed (from exploration database)",
        f"- Structure: {known.file_count} files",
        f"- Framework: {known.framework}",
        f"- Delta candidates: {len(known.candidates)} files",
        f'- Objective: "{fit(objective, SHOWN, opening)}..."',
        "",
        "## Options",
        *(f"- {letter}: {option.reading} → {option.result}" for letter, option in offered),
    )
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that a question offers: its meaning, its effect on the tasks, and the facts that it adds."""

    reading: str
    result: str
    update: Mapping[str, Any]


def choose_files(known: Knowledge, paths: Sequence[str]) -> dict[str, Any]:
    """Return the changes of the known facts if a person chooses these files as the ones to change."""
    seen = {each.path: each for each in known.candidates}
    high = {"relevance": Relevance.HIGH}
    meant = (seen.get(path, CandidateFile(path=path, relevance=Relevance.HIGH)) for path in dict.fromkeys(paths))
    return {"candidates": tuple(each.model_copy(update=high) for each in meant), "confirmed": True, "narrowed": True}


def _delta(known: Knowledge, allowed: Sequence[str]) -> tuple[Option, ...]:
    sources = (files_of(allowed, Role.SOURCE, Role.MANIFEST, Role.DOCUMENT) or tuple(allowed))[:MAX_CHOSEN]
    everything = {**choose_files(known, sources), "narrowed": False}  # a drafter may choose the other files, too
    few = tuple(each.path for each in known.candidates)[:MAX_CHOSEN] or sources[:1]
    return (
        Option("every file that the goal allows is meant", f"tasks change {_named(sources)}", everything),
        Option("the least is meant", f"tasks change {_named(few)}", choose_files(known, few)),
    )


def _tests(_: Knowledge, allowed: Sequence[str]) -> tuple[Option, ...]:
    tests = files_of(allowed, Role.TEST)[:MAX_CHOSEN]
    where = _named(tests) if tests else "the place that is usual for the language"
    return (
        Option(
            f"the tests are {where}",
            "a SPEC task writes them first" if tests else "no SPEC task, since the goal allows no test file",
            {"test_pattern": tests[0] if tests else "the usual place"},
        ),
        Option("nothing new is to be tested", "no SPEC task; the tests there are must pass", {"untested": True}),
    )


def _command(_: Knowledge, __: Sequence[str]) -> tuple[Option, ...]:
    return (
        Option("the project is tested as Python is", "tasks are verified by pytest", {"language": "python"}),
        Option("the project is tested as JavaScript is", "tasks are verified by npm", {"language": "javascript"}),
    )


def _approach(known: Knowledge, _: Sequence[str]) -> tuple[Option, ...]:
    """Offer each side of the first open "or" as an option, and both sides together as the last one."""
    choice, *others = known.choices
    where = f'the tasks of "{choice.section}"' if choice.section else "every task"
    sides = (*((side,) for side in choice.sides), choice.sides)
    return tuple(
        Option(
            " and ".join(f'"{side}"' for side in meant),
            f"{where} is for both" if len(meant) > 1 else f"{where} is for this alone",
            {
                "choices": tuple(others),
                "meant": (*known.meant, choice.model_copy(update={"sides": meant})),
                "candidates": _left_by(known, choice, meant),
            },
        )
        for meant in sides
    )


def _left_by(known: Knowledge, choice: Choice, meant: Sequence[str]) -> tuple[CandidateFile, ...]:
    """Return the candidates that remain after a choice between the sides of an "or".

    The choice removes a file that only sides which were not chosen name, unless another section names the file. If no
    file remained, all candidates stay.
    """
    others = {path for part in known.parts if part.heading != choice.section for path in part.files}
    left = tuple(
        each
        for each in known.candidates
        if not any(is_named(each.path, side) for side in choice.sides)
        or any(is_named(each.path, side) for side in meant)
        or (choice.section and each.path in others)
    )
    return left or known.candidates


def is_named(path: str, words: str) -> bool:
    """Return whether a text contains the name of a file, without folder and suffix, as a word."""
    return name_of(path).partition(".")[0].lower() in words.lower().replace("/", " ").replace(".", " ").split()


def _several(known: Knowledge, _: Sequence[str]) -> tuple[Option, ...]:
    high = _sure_files(known)
    rest = tuple(each.path for each in known.candidates if each.relevance is Relevance.MEDIUM)
    return (
        Option("all of them are meant", f"tasks change {_named(high)}", choose_files(known, (*high, *rest))),
        Option("only the first is meant", f"tasks change {high[0]}", choose_files(known, high[:1])),
    )


def _depends(known: Knowledge, _: Sequence[str]) -> tuple[Option, ...]:
    nothing: dict[str, tuple[str, ...]] = {each.seq: () for each in known.missing}
    before = {each.seq: (each.before,) if each.before else () for each in known.missing}
    return (
        Option("they wait for nothing that is missing", "they start at once", waiting_for(known, nothing)),
        Option("each waits for the task before it", "they run in their order", waiting_for(known, before)),
    )


def waiting_for(known: Knowledge, instead: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the changes of the known facts if a person replaces unknown dependencies of tasks with `instead`."""
    left = tuple(each for each in known.missing if each.seq not in instead)
    return {"missing": left, "instead": {**known.instead, **instead}}


def _named(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    return fit(", ".join(paths[:3]), 200) + more


def options_of(coherence: Coherence, known: Knowledge, allowed: Sequence[str]) -> list[tuple[Option, ...]]:
    """Return the options that each question offers, in the order of the questions."""
    return [_options(trigger, place, known, allowed) for trigger, place in coherence.asked]


def choose(letters: Mapping[int, str], coherence: Coherence, known: Knowledge, allowed: Sequence[str]) -> Knowledge:
    """Add the facts of the options with these letters; each letter comes with the number of its question.

    A side of an "or" narrows the files that other letters chose. A decided "or" is removed from its list.
    """
    for number in sorted(letters, key=lambda each: (coherence.asked[each - 1][0] is Trigger.APPROACH, -each)):
        options = _options(*coherence.asked[number - 1], known, allowed)
        known = known.model_copy(update=dict(options["abc".index(letters[number])].update))
    return known


def _options(trigger: Trigger, place: int, known: Knowledge, allowed: Sequence[str]) -> tuple[Option, ...]:
    if trigger is Trigger.APPROACH:
        first, *others = known.choices[place:]
        known = known.model_copy(update={"choices": (first, *known.choices[:place], *others)})
    return OPTIONS[trigger](known, allowed)


# A, B and C for each reason why a plan cannot go on.
OPTIONS: Mapping[Trigger, Callable[[Knowledge, Sequence[str]], tuple[Option, ...]]] = {
    Trigger.DELTA: _delta,
    Trigger.TESTS: _tests,
    Trigger.COMMAND: _command,
    Trigger.APPROACH: _approach,
    Trigger.SEVERAL: _several,
    Trigger.DEPENDS: _depends,
}
