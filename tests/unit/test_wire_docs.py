"""docs/wire.md: every list in it is what the code says, neither less nor more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.event import EventData
from schemas.step import StepContext, StepSpec
from tasks.features import FEATURES
from tasks.policy.halt_rules import AT_ONCE, RULES
from tasks.policy.pipeline import ADVICE, Feature
from tests.support.halts import EVERY_HALT
from tests.support.sources import GOAL_CODES, RULE_CODES, codes, events, halts, modules_of

DOCS = Path(__file__).parents[2] / "docs/wire.md"


def rows(heading: str, number: int = 0) -> dict[str, set[str]]:
    """A table below a heading: the first cell of each row, with what its last cell names."""
    section = DOCS.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = re.findall(r"(?:^\|.*\n)+", section, re.M)[number]
    cells = [row.strip("|").split("|") for row in table.splitlines()[2:]]
    return {
        name: set(re.findall(r"`(\w+)`", last)) for first, *_, last in cells for name in re.findall(r"`([^`]+)`", first)
    }


COMMON, RULE_KEYS = rows("Why a plan ended"), rows("Why a plan ended", 1)


def test_every_field_of_a_step_spec_is_there() -> None:
    assert list(rows("Step spec")) == list(StepSpec.model_fields)


def test_every_field_of_a_step_specs_context_is_there() -> None:
    page = DOCS.read_text()

    assert [name for name in StepContext.model_fields if not re.search(rf"`(context\.)?{name}\b", page)] == []


def test_every_event_is_there() -> None:
    assert rows("Events").keys() == events()


@pytest.mark.parametrize("feature", FEATURES, ids=lambda each: each.name)
def test_a_feature_lists_the_events_that_it_emits_and_that_are_there(feature: Feature) -> None:
    emitted = events(*modules_of(feature))

    assert set(feature.events) == {event for event in emitted if not event.startswith("step.")}
    assert emitted <= rows("Events").keys()


def test_every_field_of_an_event_has_its_place() -> None:
    everywhere = {"plan_id", "goal_id", "tenant", "repo", "kind", "at"}
    named = set().union(*rows("Events").values(), COMMON) | everywhere

    assert named == {field.alias or name for name, field in EventData.model_fields.items()}


def test_every_rule_that_ends_a_plan_is_there() -> None:
    rules = {rule.name for rule in RULES} | set(AT_ONCE.values()) | halts() | {"rejected"}

    assert RULE_KEYS.keys() == rules == ADVICE.keys()


@pytest.mark.parametrize("rule", EVERY_HALT)
def test_a_halt_has_the_keys_that_are_told_of_it(rule: str) -> None:
    evidence = EVERY_HALT[rule]().halt["evidence"]

    assert COMMON.keys() <= evidence.keys()
    assert evidence.keys() - COMMON.keys() <= RULE_KEYS[rule]


@pytest.mark.outages
def test_every_code_of_a_rejection_is_there() -> None:
    assert rows("Why a goal is refused").keys() == codes(*RULE_CODES, *GOAL_CODES)


def test_both_places_on_quick_checks_say_that_recipes_and_supplied_steps_bring_some_too() -> None:
    field, paragraph = (
        line for line in DOCS.read_text().splitlines() if line.startswith(("| `quick_ch", "Single fin"))
    )

    assert {"template", "focused", "full", "quick_checks"} <= set(re.findall(r"\w+", field))
    assert {"template", "recipe", "supplied", "quick_checks"} <= set(re.findall(r"\w+", paragraph))
