"""Cleans a goal's words for steps, lists and logs, before planning begins.

A goal may come from a webhook, so its text is as untrusted as a log. The kind of a string (`schemas.text_kinds`)
selects its rule in `_RULES`. Attacks in sentences are removed and named. An invalid name is an error. The text of a
supplied step is made legible; the validator reports attacks in it as errors of this step. Strings of other kinds are
not changed: the code that uses a key, a path or a command judges it. Logs and documents only choose among templates,
and code that quotes them sanitizes the quotation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from schemas.envelope import FieldError
from schemas.goal import Goal
from schemas.text_kinds import Leaf, TextKind, rewrite
from tasks.text.fields import MAX_CUTS, as_written, fit, flatten, make_legible
from tasks.text.sanitize import TOKEN, is_simple, sanitize
from tasks.text.unicode import INVISIBLE

MAX_FINDINGS = 100  # reported of one goal
MAX_ERRORS = 100
MAX_REVISION = 200
MAX_LINE, MAX_CONSTRAINTS = 1000, 100
MAX_CLOSER_LOOK = 2 * 1024 * 1024  # characters of texts that hold markup, escapes, blobs or letters beyond ASCII
MAX_UNSEEN = MAX_CLOSER_LOOK  # characters of texts that are not examined for such markup: they fit even if they hold it

_BAD_REPOSITORY = re.compile(r"^-|[\s\"'`<>|;&$(){}\[\]*?!^]")
_WORDS = frozenset({TextKind.SENTENCE, TextKind.PROSE})
_HASH = re.compile(r"[0-9a-f]{1,64}")
_REVISION = re.compile(r"[^\W_][\w./@{}^~+-]*")
_RULE_OF_NAMES = "A name holds no control or invisible characters, and nothing that reads like an attack on the agent."
_RULE_OF_REPOSITORIES = "A repository is named like acme/shop, a path or a URL: no blanks, quotes and wildcards."
_RULE_OF_REVISIONS = "A revision is a commit's hash, or a name that git knows a commit by."


def is_revision(text: str) -> bool:
    """Return whether a text is safe as a revision: git cannot read it as an option or as a range."""
    return len(text) <= MAX_REVISION and ".." not in text and _REVISION.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class CleanedGoal:
    """The cleaned goal, the classes of the removed attacks, and the goal's errors."""

    goal: Goal
    findings: tuple[str, ...] = ()
    errors: tuple[FieldError, ...] = ()


def clean_goal(goal: Goal) -> CleanedGoal:
    """Return the goal with each string cleaned by its kind; pure.

    If nothing needs a change, this is the same goal. A goal with errors has other texts in place of the refused
    strings, so that it can be stored.
    """
    work = _Pass()
    fit_goal: Goal = rewrite(goal, _RULES, work.change)
    if constraints := work.together(fit_goal.constraints):
        fit_goal = fit_goal.model_copy(update={"constraints": constraints})
    if work.room < 0:
        return CleanedGoal(fit_goal, (), (TOO_MUCH,))
    if not re.search(r"\w", fit_goal.goal.replace(TOKEN, "")):
        work.errors = [NOTHING_LEFT]
    return CleanedGoal(fit_goal, tuple(work.findings[:MAX_FINDINGS]), tuple(work.errors[:MAX_ERRORS]))


class _Pass:
    """One pass over the strings of a goal: collects findings and errors, and limits the work.

    Only a limited number of characters may get the slow examination.
    """

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.errors: list[FieldError] = []
        self.room = MAX_CLOSER_LOOK
        self._unseen: list[str] = []  # texts that may still need a closer look
        self._unseen_room = MAX_UNSEEN

    def change(self, pointer: str, text: str, leaf: Leaf) -> str:
        """Return a cleaned string; after the limit of the work is reached, only a mark in its place."""
        self._unseen.append(text)
        self._unseen_room -= len(text)
        if self._unseen_room < 0:
            self.room -= sum(len(each) for each in self._unseen if not is_simple(each))
            self._unseen.clear()
        if self.room < 0:
            return TOKEN[: leaf.most]
        made = _RULES[leaf.kind](self, pointer, text, leaf)
        if leaf.kind in _WORDS and leaf.least and not made.strip() and pointer != "/goal":
            return self.refuse(NOTHING_LEFT.model_copy(update={"pointer": pointer, "message": LEFT_EMPTY}))
        return made

    def strip(self, text: str) -> str:
        """Remove attacks, including attacks that only appear if the text is put on one line.

        A field of a step contains the text on one line.
        """
        found = sanitize(text)
        line = flatten(found.text)
        flat = found if line == text and not found.findings else sanitize(line)
        self.findings.extend(attack.kind.value for attack in (*found.findings, *flat.findings))
        return flat.text if flat.findings else found.text

    def words(self, _: str, text: str, leaf: Leaf) -> str:
        """Remove attacks from words, and truncate them to their length."""
        made = self.strip(text)
        return made if leaf.most is None or len(made) <= leaf.most else fit(made, leaf.most, as_written)

    def step_text(self, _: str, text: str, __: Leaf) -> str:
        """Make the text of a supplied step legible."""
        return make_legible(text)

    def name(self, pointer: str, text: str, leaf: Leaf) -> str:
        """Refuse an invalid name, and keep the part of it that can be shown."""
        if _is_name(text):
            return text
        return self.refuse_name(pointer, text, leaf, _RULE_OF_NAMES)

    def repository(self, pointer: str, text: str, leaf: Leaf) -> str:
        """Refuse an invalid name of a repository."""
        if _BAD_REPOSITORY.search(text):
            return self.refuse_name(pointer, text, leaf, _RULE_OF_REPOSITORIES)
        return self.name(pointer, text, leaf)

    def revision(self, pointer: str, text: str, leaf: Leaf) -> str:
        """Refuse a text that cannot be the name of a commit."""
        if _HASH.fullmatch(text):
            return text
        if not is_revision(text):
            return self.refuse_name(pointer, text, leaf, _RULE_OF_REVISIONS)
        return self.name(pointer, text, leaf)

    def refuse_name(self, pointer: str, text: str, leaf: Leaf, rule: str) -> str:
        """Note that `text` breaks `rule`, and return the part of it that can be shown."""
        error = FieldError(pointer=pointer, code="invalid_identifier", message=rule)
        return self.refuse(error, fit(text, leaf.most or len(text)))

    def refuse(self, error: FieldError, kept: str = "") -> str:
        """Record an error, and return the text that takes the place of the string."""
        if len(self.errors) <= MAX_ERRORS:
            self.errors.append(error)
        return kept or TOKEN

    def together(self, lines: tuple[str, ...]) -> tuple[str, ...] | None:
        """Remove an attack that several lines form only together; None if there is no such attack."""
        if not lines:
            return None
        joined = "; ".join(lines)
        text = self.strip(joined) if self.room >= 0 else joined
        if text == joined:
            return None
        for _ in range(MAX_CUTS):
            starts = range(0, len(text), MAX_LINE)[:MAX_CONSTRAINTS]
            pieces = tuple(fit(text[start : start + MAX_LINE], MAX_LINE, as_written) for start in starts)
            joined = "; ".join(pieces)  # as their reader joins them
            text = self.strip(joined)
            if text == joined:
                return pieces
        return (TOKEN,)


@lru_cache(maxsize=4096)  # goals come from the same few tenants and repositories
def _is_name(text: str) -> bool:
    return text.isprintable() and not INVISIBLE.search(text) and not sanitize(text).findings


_RULES: Mapping[TextKind, Callable[[_Pass, str, str, Leaf], str]] = {
    TextKind.SENTENCE: _Pass.words,
    TextKind.PROSE: _Pass.words,
    TextKind.STEP_TEXT: _Pass.step_text,
    TextKind.NAME: _Pass.name,
    TextKind.REPOSITORY: _Pass.repository,
    TextKind.REVISION: _Pass.revision,
}
LEFT_EMPTY = "Nothing is left of this text once it is cleaned."


NOTHING_LEFT = FieldError(
    pointer="/goal",
    code="empty_after_sanitizing",
    message="The goal is empty after the removal of text that reads like an attack on the agent is taken out.",
)
TOO_MUCH = FieldError(
    pointer="",
    code="too_much_to_sanitize",
    message=f"Texts with markup, escapes, encoded blobs or letters beyond ASCII have more than {MAX_CLOSER_LOOK} "
    "characters. Leave out parts that no step needs, or move them to context.documents.",
)
