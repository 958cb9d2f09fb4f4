"""Waves: derived from what milestones depend on, or given; every milestone once, and in order."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.kinds.reviewed_plan_files import Plan
from tasks.strategies.reviewed_plan.milestones import wave_faults, waves_of
from tests.support.kinds.reviewed_plan_values import EMPTY


def a_plan(depends: dict[int, list[int]], waves: list[list[int]] | None = None, numbers: Any = None) -> Plan:
    def name(number: int) -> str:
        return f"M-{number:03d}"

    milestones = [
        {
            "id": name(number),
            "number": number,
            "name": "x",
            "files": ["a"],
            "depends_on": [name(each) for each in after],
        }
        for number, after in depends.items()
    ]
    given = [
        {"wave": number, "milestones": [name(each) for each in wave]}
        for number, wave in zip(numbers or range(1, 99), waves or [], strict=False)
    ]
    body = EMPTY.model_dump() | {"milestones": milestones, "milestone_dependencies": {"waves": given}}
    return Plan.model_validate(body)


def told(plan: Plan) -> list[list[int]]:
    return [[each.number for each in wave] for wave in waves_of(plan)]


@pytest.mark.parametrize(
    ("depends", "waves"),
    [
        ({}, []),
        ({1: []}, [[1]]),
        ({1: [], 2: []}, [[1, 2]]),
        ({2: [], 1: []}, [[1, 2]]),
        ({1: [], 2: [1], 3: [2]}, [[1], [2], [3]]),
        ({1: [], 2: [1], 3: [1], 4: [2, 3]}, [[1], [2, 3], [4]]),
        ({1: [3], 2: [], 3: []}, [[2, 3], [1]]),
        ({1: [], 2: [1], 3: [1, 2], 4: []}, [[1, 4], [2], [3]]),
    ],
)
def test_waves_follow_from_what_milestones_depend_on(depends: dict[int, list[int]], waves: list[list[int]]) -> None:
    plan = a_plan(depends)

    assert list(wave_faults(plan)) == []
    assert told(plan) == waves


def test_given_waves_are_taken_as_they_are() -> None:
    plan = a_plan({1: [], 2: [], 3: [1]}, [[2], [1], [3]])

    assert list(wave_faults(plan)) == []
    assert told(plan) == [[2], [1], [3]]


@pytest.mark.parametrize(
    ("plan", "why"),
    [
        (a_plan({1: [], 2: []}, [[1]]), "waves: M-002 is in 0 waves"),
        (a_plan({1: [], 2: []}, [[1, 2], [2]]), "waves: M-002 is in 2 waves"),
        (a_plan({1: []}, [[1, 1]]), "waves: M-001 is in 2 waves"),
        (a_plan({1: []}, [[1, 9]]), "dangling: a wave names M-009"),
        (a_plan({1: [], 2: [1]}, [[2], [1]]), "waves: M-002 depends on M-001 and must be in a later wave"),
        (a_plan({1: [], 2: [1]}, [[1, 2]]), "waves: M-002 depends on M-001 and must be in a later wave"),
        (a_plan({1: [], 2: []}, [[1], [2]], (2, 1)), "waves: they must be numbered 1, 2, 3"),
        (a_plan({1: [], 2: []}, [[1], [2]], (1, 3)), "waves: they must be numbered 1, 2, 3"),
        (a_plan({1: [9]}), "dangling: M-001 depends on M-009"),
        (a_plan({1: [1]}), "dangling: M-001 depends on M-001"),
        (a_plan({1: [2], 2: [1]}), "cycle: these milestones wait for each other: M-001, M-002"),
        (a_plan({1: [], 2: [4], 3: [2], 4: [3]}), "cycle: "),
    ],
)
def test_an_order_that_cannot_be_kept_is_told(plan: Plan, why: str) -> None:
    assert any(fault.startswith(why) for fault in wave_faults(plan))


def test_a_cycle_never_keeps_waves_from_ending() -> None:
    assert told(a_plan({1: [], 2: [3], 3: [2]})) == [[1]]
