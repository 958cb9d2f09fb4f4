"""How often the verification of a step flips between pass and fail on the same tree, counted by what it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from schemas.stored import PlanRecord
from tasks.plan.snapshot import Step
from tasks.plan.unit_of_work import UnitOfWork

MAX_VERIFICATIONS = 64  # whose flips are counted: the counters are written with every commit


def count_flip(plan: PlanRecord, step: Step, name: str, *, passed: bool) -> int:
    """Note what the verification `name` said; returns how often it flipped.

    Kept is 2 * flips + whether it passed last.
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
    """Go on counting the flips of `step` under the verification that it has now, before it is narrowed."""
    unit.plan.streaks.narrowed.setdefault(step.step_id, name_verification(step.facts))


def compared_as(facts: Mapping[str, Any]) -> str:
    """Name what verifies a step whose flips are counted, of which `facts` may lack what is omitted; else nothing."""
    return name_verification(facts) if facts["verify_tools"] and not _prepares(facts) else ""


def _prepares(facts: Mapping[str, Any]) -> bool:
    return bool(facts.get("inserted_by") or facts.get("at_base"))


def name_verification(facts: Mapping[str, Any]) -> str:
    """Name what a step is verified by, in 8 characters: under that a plan counts and remembers what it said."""
    return _digest("\n".join([" ".join(words_of(tool)) for tool in facts["verify_tools"]]))


def words_of(tool: Mapping[str, Any]) -> Sequence[str]:
    """List the words of a stored verification, before them the folder that it runs in where that is not the root."""
    return [tool["cwd"], *tool["argv"]] if "cwd" in tool else tool["argv"]


@lru_cache(maxsize=1024)
def _digest(commands: str) -> str:
    return hashlib.blake2b(commands.encode(errors="replace"), digest_size=4).hexdigest()
