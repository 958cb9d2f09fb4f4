"""Decides about a change's effects on tests and checks: by the rows of the policy and the requests of the goal.

A goal requests an effect by words, such as "remove the tests of the old client". A goal also requests it if it names
the file in its `allowed_files`. A requested effect is reported and not refused. Two effects must be requested by words:
weaker versions of the goal's own failing tests, and code that overrides their outcomes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.base import GoalKind
from schemas.goal import Goal
from schemas.integrity import Integrity, IntegrityPlace
from schemas.integrity import IntegrityAction as A
from schemas.integrity import IntegrityFamily as F
from tasks.base.policy import OF_OTHERS, Policy
from tasks.text.paths import clean, is_glob
from tasks.toolchain.files import Role, role_of
from tasks.toolchain.integrity.configuration import is_configuration
from tasks.toolchain.integrity.finding import FAMILIES
from tasks.toolchain.test_ids import file_and_name

OF_TESTS = frozenset({F.WEAKENS_TESTS, F.ALTERS_TESTS, F.TESTS_DIVERGE})
OF_CHECKS = frozenset({F.SUPPRESSES, F.SUPPRESSES_OWN, F.LOOSENS})
OF_ALL_TESTS = frozenset({"outcome_overridden", "code_replaced"})  # kinds that concern tests of other files, too
GRAVITY = (A.REFUSE, A.APPROVE, A.TELL, A.PASS)
MOST_NAMED = 100
_BETWEEN = r"(?:[\w`'\"./:-]+\s+){0,4}?"
_ASKS_FOR_TESTS = re.compile(
    r"\b(?:remov|delet|drop|skip|xfail|disabl|quarantin|renam|rewrit|updat|mov|merg|replac|chang|adjust|loosen|relax"
    rf"|regenerat|simplif|parametri|clean|adapt|refactor|edit|correct)\w*\s+{_BETWEEN}"
    r"(?:tests?|testcases?|specs?|snapshots?|assertions?|expectations?|expected|fixtures?)\b",
    re.IGNORECASE,
)
_ASKS_FOR_SUPPRESSION = re.compile(
    rf"\b(?:suppress|ignor|silenc|disabl|exclud|exempt|loosen|relax|lower)\w*\s+{_BETWEEN}"
    r"(?:warnings?|errors?|findings?|lints?|linter|rules?|checks?|coverage|thresholds?)\b"
    r"|\b(?:noqa|nolint|eslint-disable\w*|ts-ignore|ts-expect-error|nosec|pragma|type:\s*ignore)\b",
    re.IGNORECASE,
)
_CLOSES_FINDINGS = re.compile(
    rf"\b(?:clean|fix|resolv|address|clos|mend|repair)\w*\s+(?:up\s+)?{_BETWEEN}"
    r"(?:lint\w*|ruff|flake8|pylint|mypy|pyright|eslint|tsc|clippy|findings?|warnings?)\b",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"\b(?:not|never|without|don't|dont|no|instead of|rather than)\s+(?:[\w`'\"-]+\s+){0,2}$", re.IGNORECASE
)


class Asked(NamedTuple):
    """The type of a goal and the effects that it requests: by words (families of findings), or by names of files."""

    type: str = ""
    families: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    closes: bool = False  # findings of checks, which a suppression does not

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Asked:
        """Read the output of `keep`."""
        return cls(kept["type"], tuple(kept["families"]), tuple(kept["files"]), kept.get("closes", False))

    def keep(self) -> dict[str, Any]:
        """Return the form to store."""
        return {name: value for name, value in self._asdict().items() if name != "closes" or value}


class Decided(NamedTuple):
    """A place of a change, with the action for it."""

    action: A
    place: IntegrityPlace


def asked_by(goal: Goal, goal_type: str) -> Asked:
    """Return the effects that a goal requests; `goal_type` is the type of a task, or the kind of another goal."""
    families: set[F] = set()
    text = " ".join((goal.goal, *goal.constraints))
    families |= OF_TESTS if _asks(_ASKS_FOR_TESTS, text) else set()
    families |= OF_CHECKS if _asks(_ASKS_FOR_SUPPRESSION, text) else set()
    named = (clean(path) for path in goal.allowed_files if not is_glob(path))
    files = tuple(path for path in named if role_of(path) is Role.TEST or is_configuration(path))
    closes = goal_type != GoalKind.GAP_REPORT and _asks(_CLOSES_FINDINGS, goal.goal)
    return Asked(goal_type, tuple(sorted(families)), files[:MOST_NAMED], closes)


def _asks(pattern: re.Pattern[str], text: str) -> bool:
    return any(not _NOT.search(text[: found.start()]) for found in pattern.finditer(text))


def decide(said: Integrity, asked: Asked, rows: Mapping[F, A], failing: Sequence[str]) -> list[Decided]:
    """Return an action for each place in a change, the gravest first.

    A kind of finding with a count, but without any place, gets a place with the path `-`.
    """
    known = {place.kind for place in said.places}
    more = (
        IntegrityPlace(kind=kind, path="-", line=0)
        for kind, count in said.counts.items()
        if count and kind not in known
    )
    decided = [Decided(_action(place, asked, rows, failing), place) for place in (*said.places, *more)]
    return sorted(decided, key=lambda each: GRAVITY.index(each.action))


def rows_of(policy: Policy, head: Any, asked: Asked) -> Mapping[F, A]:
    """Return the policy's action for each family of findings in a plan.

    If the plan has to close findings of checks, suppressions need an approval where the policy demands one, and are
    refused otherwise.
    """
    rows = dict(policy.integrity(asked.type, head.kind, head.tenant, head.repo))
    if asked.type == GoalKind.GAP_REPORT or asked.closes:
        for family in (F.SUPPRESSES, F.SUPPRESSES_OWN):
            rows[family] = A.APPROVE if rows.get(family) is A.APPROVE else A.REFUSE
    return rows


def is_of_interest(policy: Policy, goal: Goal, asked: Asked) -> bool:
    """Return whether other rules decide about findings in this goal's changes than in those of most goals."""
    rows = policy.integrity(asked.type, goal.kind, goal.tenant, goal.context.repo)
    return asked.closes or dict(rows) != dict(OF_OTHERS)


def _action(place: IntegrityPlace, asked: Asked, rows: Mapping[F, A], failing: Iterable[str]) -> A:
    family = FAMILIES.get(place.kind)
    if family is None:  # of a newer controller
        return A.TELL
    action = rows.get(family, A.TELL)
    if action in (A.TELL, A.PASS) or family in asked.families:
        return A.PASS if action is A.PASS else A.TELL
    is_named = place.path in asked.files and (family in OF_TESTS or is_configuration(place.path))
    return A.TELL if is_named and not any(_is_about(place, each) for each in failing) else action


def _is_about(place: IntegrityPlace, failing: str) -> bool:
    """Return whether a place concerns the failing test `failing`, or all tests."""
    if place.kind in OF_ALL_TESTS:
        return True
    file, name = file_and_name(failing)
    in_file = not file or file == place.path or place.path.endswith(f"/{file}")
    return bool(name) and name in place.what and in_file
