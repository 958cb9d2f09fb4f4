"""Seeded goals of mixed shape and fate; the words of the title tell controllers and checks what kind a plan is."""

from __future__ import annotations

from random import Random
from typing import Any

STEPS = 20
SHAPES = ("chain", "fan", "diamond", "random")
KINDS = {
    "plain": 40,
    "failing": 12,  # some attempts fail, and others after them succeed
    "revised": 12,  # the same, with a verification that revisions can narrow
    "broken": 8,  # one step never succeeds
    "approved": 10,  # an operator approves the steps at HIGH risk
    "poor": 6,  # the budget is too small
    "paused": 6,  # an operator pauses and resumes
    "halted": 3,  # an operator halts
    "fragile": 3,  # a second death halts
}
PLENTY = {
    "tokens": 10**8,
    "patch_cycles": 100_000,
    "failing_outcomes": 1000,
    "wall_clock_s": 86_400,
    "consecutive_failures": 1000,
    "identical_failures": 1000,
    "flaky_flips": 1000,
    "lease_deaths": 1000,
    "max_new_files": 10_000,
    "max_growth_kb": 10**6,
}
LIMITS: dict[str, dict[str, int]] = {
    "poor": {"tokens": 60_000},
    "fragile": {"lease_deaths": 2},
    "broken": {"consecutive_failures": 3},
}


def kind_of(number: int, seed: int) -> str:
    """Say of what kind the goal with this number is."""
    return Random(f"{seed}|kind|{number}").choices(list(KINDS), list(KINDS.values()))[0]


def goal_id(number: int, seed: int) -> str:
    """Name the goal with this number."""
    return f"chaos-{number}-{kind_of(number, seed)}"


def goal(number: int, seed: int) -> dict[str, Any]:
    """Make the goal with this number."""
    rng = Random(f"{seed}|goal|{number}")
    kind = kind_of(number, seed)
    return {
        "goal_id": goal_id(number, seed),
        "goal": f"Survive {kind}",
        "tenant": "default",  # whose records workers of the version before find, too
        "allowed_files": [f"src/f{place}.py" for place in range(STEPS)],
        "limits": {**PLENTY, "max_parallel": rng.randint(1, 8), **LIMITS.get(kind, {})},
        "approvals": ["HIGH"] if kind == "approved" else [],
        "steps": [_step(number, kind, place, after, rng) for place, after in enumerate(_shape(rng))],
    }


def _shape(rng: Random) -> list[list[int]]:
    """Say for each step which ones it depends on."""
    shape = rng.choice(SHAPES)
    if shape == "chain":
        return [[place - 1] if place else [] for place in range(STEPS)]
    if shape == "fan":
        return [[], *[[0]] * (STEPS - 2), list(range(1, STEPS - 1))]
    if shape == "diamond":
        return [[], *[[(place - 1) // 3 * 3] if place % 3 else [place - 2, place - 1] for place in range(1, STEPS)]]
    return [sorted(rng.sample(range(place), min(place, rng.randint(0, 3)))) for place in range(STEPS)]


def _step(number: int, kind: str, place: int, after: list[int], rng: Random) -> dict[str, Any]:
    risky = kind == "approved" and place in (3, 11)
    verified = risky or (kind == "revised" and place % 2 == 0)
    return {
        "step_id": f"s-{place}",
        "title": f"{kind} {number}",
        "intent": "Do what the seed says",
        "allowed_files": [f"src/f{rng.choice((place, place, place, 0))}.py"],
        "depends_on": [f"s-{each}" for each in after],
        "risk_level": "HIGH" if risky else "LOW",
        "rollback_hint": "Discard the change." if risky else None,
        "verify": "pytest tests/test_all.py" if verified else None,
        "retry_limit": 3,
        "estimate": {"tokens": 2000 if kind == "poor" else 5000, "patch_cycles": 1},  # an attempt uses 4000
    }
