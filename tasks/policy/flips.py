"""Counts how often a step's verification flips between pass and fail on the same tree, by the tools that it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from schemas.stored import PlanRecord
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork

MAX_VERIFICATIONS = 64  # counted at once: the counters are written with every commit


def count_flip(plan: PlanRecord, step: Step, name: str, *, passed: bool) -> int:
    """Record a result of the verification `name`; returns how often it flipped.

    The stored number is 2 * flips + 1 if it passed last, else 2 * flips.
    """
    known, key = plan.streaks.flips, plan.streaks.narrowed.get(step.step_id) or name
    last = known.get(key)
    if last is None:
        if len(known) >= MAX_VERIFICATIONS:
            del known[min(known, key=lambda each: known[each] >> 1)]
        known[key] = int(passed)
    elif last & 1 != passed:
        known[key] = (last | 1) + 1 + passed
    return known[key] >> 1


def keep_verification(unit: UnitOfWork, step: Step) -> None:
    """Let flips of `step` count under its present verification, even after a revision changes the verification."""
    unit.plan.streaks.narrowed.setdefault(step.step_id, name_verification(step.facts))


def compared_as(facts: Mapping[str, Any]) -> str:
    """Return the name of a step's verification if its flips are counted, else an empty text; `facts` as stored."""
    prepares = facts.get("inserted_by") or facts.get("at_base")
    return name_verification(facts) if facts["verify_tools"] and not prepares else ""


def name_verification(facts: Mapping[str, Any]) -> str:
    """Return a name of 8 characters for a step's verification; results are counted and remembered under it."""
    return _digest("\n".join([" ".join(words_of(tool)) for tool in facts["verify_tools"]]))


def words_of(tool: Mapping[str, Any]) -> Sequence[str]:
    """Return the words of a stored verification, after its folder if that is not the root."""
    return [tool["cwd"], *tool["argv"]] if "cwd" in tool else tool["argv"]


@lru_cache(maxsize=1024)
def _digest(commands: str) -> str:
    return hashlib.blake2b(commands.encode(errors="replace"), digest_size=4).hexdigest()
