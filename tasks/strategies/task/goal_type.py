"""Finds the type of a `task` goal by whole words and the structure of its sentence.

Parts of words do not count, since "Add prefix support" asks for no fix. The leading verb of the sentence decides first,
then signs of failure, then the goal's context.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, takewhile

from schemas.goal import Goal
from tasks.toolchain.classify import LogSign, read_log
from tasks.toolchain.contract import fits
from tasks.toolchain.files import Role, role_of


class GoalType(StrEnum):
    """The seven types of `task` goals; each has a template."""

    REPAIR = "repair"
    FEATURE = "feature"
    REFACTOR = "refactor"
    BUILD = "build"
    DEPENDENCY = "dependency"
    OBSERVATION = "observation"
    GENERIC = "generic"


TASK_KINDS = {"fix_test": GoalType.REPAIR, "add_feature": GoalType.FEATURE} | {each.value: each for each in GoalType}


def task_kind(kind: GoalType) -> str:
    """Return the name of this type in the planner's first document."""
    return next(name for name, each in TASK_KINDS.items() if each is kind)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_REPAIR = _words("fix fixes repair correct resolve solve debug mend restore unbreak hotfix bugfix")
_FEATURE = _words(
    "add implement create introduce support enable allow extend provide write expose handle show display log "
    "build feature feat"
)
_REFACTOR = _words(
    "refactor rename restructure simplify extract split move reorganize reorganise tidy deduplicate modularize "
    "modularise decouple inline cleanup rewrite"
)
_DEPENDENCY = _words("upgrade bump downgrade")
_DEPENDENCY_IF_NAMED = _words("update pin unpin install lock renovate resolve fix")
_OBSERVATION = _words(
    "investigate diagnose observe analyze analyse examine explain inspect explore understand reproduce find why"
)

_BUILD_SIGNS = _words("build builds compile compiles compilation compiler linker linking")
_DEPENDENCY_SIGNS = _words("dependency dependencies lockfile")
_FAILURE_SIGNS = _words(
    "bug bugs failing fails fail failed failure failures broken breaks crash crashes crashing regression traceback"
)
_SUCCESS_SIGNS = _words("pass passes green work works again compile build")
_REFACTOR_ENDINGS = _words("cleanup refactoring refactor rename")
_FEATURE_ENDINGS = _words("support feature toggle option flag")

_TESTS = _words("test tests testcase testcases")
_OF_WHAT = _words("for of to in that which covering around against on with at from when where using about by as")
_AND = _words("and then")
_VERBS = _REPAIR | _FEATURE | _REFACTOR | _DEPENDENCY | _words("make change update use remove delete")

_FILLERS = _words(
    "please kindly can could would will you we i need needs want wants to should must let let's lets us try help me "
    "also just now then"
)
_PREFIXES = _words(
    "chore docs test tests ci perf style build revert"
)  # of conventional commits; `fix:`, `feat:` are verbs
_NOUNS_TOO = _words("debug build")  # verbs only if a word follows that an object begins with
_OBJECT_STARTS = _words("a an the this that these those our my all any why how failing broken new another")


@dataclass(frozen=True, slots=True)
class TypeRule:
    """A row of the table of types: if all its conditions are true, a goal has this type; the first such row counts."""

    type: GoalType
    lead: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    ending: frozenset[str] = frozenset()

    def holds(self, sentence: Sentence) -> bool:
        """Return whether all conditions of this row are true for `sentence`."""
        return (
            (not self.lead or sentence.lead in self.lead)
            and (not self.words or not self.words.isdisjoint(sentence.words))
            and (not self.also or not self.also.isdisjoint(sentence.words))
            and (not self.ending or sentence.last in self.ending)
        )


RULES = (
    TypeRule(GoalType.BUILD, lead=_REPAIR | _words("make"), words=_BUILD_SIGNS),
    TypeRule(GoalType.DEPENDENCY, lead=_DEPENDENCY),
    TypeRule(GoalType.DEPENDENCY, lead=_DEPENDENCY_IF_NAMED, words=_DEPENDENCY_SIGNS),
    TypeRule(GoalType.REPAIR, lead=_REPAIR),
    TypeRule(GoalType.REPAIR, lead=_words("make get"), words=_SUCCESS_SIGNS),
    TypeRule(GoalType.FEATURE, lead=_FEATURE),
    TypeRule(GoalType.REFACTOR, lead=_REFACTOR),
    TypeRule(GoalType.REFACTOR, lead=_words("clean"), words=_words("up")),
    TypeRule(GoalType.REPAIR, lead=_OBSERVATION, words=_REPAIR),
    TypeRule(GoalType.OBSERVATION, lead=_OBSERVATION),
    TypeRule(GoalType.BUILD, words=_FAILURE_SIGNS, also=_BUILD_SIGNS),
    TypeRule(GoalType.DEPENDENCY, words=_DEPENDENCY_SIGNS, also=_FAILURE_SIGNS | _words("conflict conflicts")),
    TypeRule(GoalType.REPAIR, words=_FAILURE_SIGNS),
    TypeRule(GoalType.REFACTOR, ending=_REFACTOR_ENDINGS),
    TypeRule(GoalType.FEATURE, ending=_FEATURE_ENDINGS),
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A goal's text as its lower-case words, with the verb that leads it."""

    words: tuple[str, ...]
    lead: str

    @property
    def last(self) -> str:
        """The last word; it names the subject of a sentence that has no verb."""
        return self.words[-1] if self.words else ""


_CONVENTIONAL = re.compile(r"\s*(\w+)(?:\([^)]*\))?!?:\s")


def _words_of(folded: str) -> tuple[str, ...]:
    return tuple(re.findall(r"[^\W\d_][\w'-]*", folded))


def sentence_of(text: str) -> Sentence:
    """Split a goal's text into words."""
    folded = text.casefold()
    words = _words_of(folded)
    prefixed = _CONVENTIONAL.match(folded)
    rest = _words_of(folded[prefixed.end() :]) if prefixed and prefixed[1] in _PREFIXES else words
    meant = [word for word in rest if word not in _FILLERS]
    lead, following = (*meant[:2], "", "")[:2]
    return Sentence(words, "" if lead in _NOUNS_TOO and following not in _OBJECT_STARTS else lead)


def goal_type(goal: Goal) -> GoalType:
    """Return the type of `goal`: the one that it names, else by its words and its failure log."""
    if goal.task_kind:
        return TASK_KINDS[goal.task_kind]
    sentence = sentence_of(goal.goal)
    found = next((rule.type for rule in RULES if rule.holds(sentence)), GoalType.GENERIC)
    context = goal.context
    if found is GoalType.GENERIC and (context.failing_tests or (context.failure_log or "").strip()):
        found = GoalType.REPAIR
    if found is not GoalType.REPAIR:
        return found
    sign = read_log(context.failure_log or "", (*context.files, *goal.allowed_files))
    named = bool(context.failing_tests) or bool(_NAMED_PLACE.search(goal.goal))
    return GoalType.REPAIR if sign is LogSign.SILENT and named else _TYPE_OF_LOG[sign]


def is_about_failure(goal: Goal) -> bool:
    """Return whether `goal` may be about a failure: by its type, its log, or a word of its sentence."""
    words = _FAILURE_SIGNS | _SUCCESS_SIGNS | _REPAIR
    by_type = goal_type(goal) in (GoalType.REPAIR, GoalType.BUILD, GoalType.OBSERVATION)
    return (
        by_type or bool((goal.context.failure_log or "").strip()) or not words.isdisjoint(sentence_of(goal.goal).words)
    )


def is_about_tests(goal: Goal) -> bool:
    """Return whether `goal` only asks for tests, such as "Write unit tests for the parser"."""
    sentence = sentence_of(goal.goal)
    words, pairs = sentence.words, pairwise(sentence.words)
    if sentence.lead not in _FEATURE or any(one in _AND and other in _VERBS for one, other in pairs):
        return False
    asked = [*takewhile(lambda word: word not in _OF_WHAT, words[words.index(sentence.lead) + 1 :])]
    return bool(asked) and asked[-1] in _TESTS


def named_tests(goal: Goal) -> tuple[str, ...]:
    """Return the tests that the sentence of a repair names, such as `tests/test_a.py::test_x`.

    If the goal has a listing, only tests in its files count.
    """
    if goal_type(goal) is not GoalType.REPAIR:
        return ()
    known = frozenset((*goal.context.files, *goal.allowed_files))
    words = (word.strip(_AROUND).removeprefix("./") for word in goal.goal.split())
    found = (word for word in words if "::" in word and role_of(word.partition("::")[0]) is Role.TEST)
    named = (word for word in found if not goal.context.files or word.partition("::")[0] in known)
    return tuple(dict.fromkeys(word for word in named if fits("test_id", word)))[:MAX_NAMED]


_AROUND = "`'\"(),;:.!?"
MAX_NAMED = 20
_TYPE_OF_LOG = {
    LogSign.NONE: GoalType.REPAIR,
    LogSign.REPAIRABLE: GoalType.REPAIR,
    LogSign.BUILD: GoalType.BUILD,
    LogSign.DEPENDENCY: GoalType.DEPENDENCY,
    LogSign.SILENT: GoalType.OBSERVATION,  # if nothing else shows a repair
}
_NAMED_PLACE = re.compile(r"::\w|[\w/]\.[a-z]{1,4}\b")  # `test_a.py`, `TestX::test_y`
