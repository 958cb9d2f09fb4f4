"""What is decided at a glance is decided as a closer look decides it, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas import codec
from schemas.base import name_unknown_fields, unknown_fields
from schemas.goal import Goal
from schemas.step import OMITTED, PlannedStep, pack_step
from tasks.rules import goal_cleaning
from tasks.rules.goal_cleaning import clean_goal
from tasks.text import sanitize as sanitize_module
from tasks.text.sanitize import Treatment, is_plain, is_simple, sanitize
from tasks.text.unicode import FOLDED, fold
from tests.support.any_goal import GOALS
from tests.support.any_plan import drafts
from tests.support.attacks import TEXTS

EVERYWHERE = re.compile("")
BLOBS = st.lists(
    st.sampled_from(["6", "69", "a", "g", "-", "/", " ", ":", "\n", "=", "%69", "&#105;", "<b>", "](x)", "a*b", "-->"]),
    max_size=120,
).map("".join)
MORE = st.dictionaries(st.sampled_from(["later", "newer"]), st.sampled_from([1, True, 1.0, "x", [], {}]))


@contextmanager
def closer_look() -> Iterator[None]:
    """Have every text looked through for everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sanitize_module, "_MAY_HIDE", EVERYWHERE)
        for rows in ("_PROSE", "_CODE", "_LETTERED", "_GLUED"):
            patch.setattr(getattr(sanitize_module, rows), "begins", EVERYWHERE)
        yield


@given(TEXTS | BLOBS)
def test_a_text_is_judged_as_by_a_closer_look(text: str) -> None:
    at_a_glance = [is_plain(text), is_simple(text), *(sanitize(text, mode) for mode in Treatment)]

    with closer_look():
        assert at_a_glance == [is_plain(text), is_simple(text), *(sanitize(text, mode) for mode in Treatment)]


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_folded_as_any_text(text: str) -> None:
    assert fold(text) == text.translate(FOLDED).lower()


@given(drafts(), MORE, MORE)
def test_a_step_is_packed_as_it_would_be_dumped(steps: list[PlannedStep], more: Any, below: Any) -> None:
    for step in steps:
        newer = step.model_copy(update={**more, "estimate": step.estimate.model_copy(update=below)})
        dumped = newer.model_dump(mode="json")

        kept = {name: value for name, value in dumped.items() if name not in OMITTED or value != OMITTED[name]}
        assert pack_step(newer) == codec.dumps(kept)


@given(GOALS, st.integers(0, 80))
def test_the_room_for_a_closer_look_ends_with_the_same_text(body: dict[str, Any], room: int) -> None:
    try:
        goal = Goal.model_validate(body)
    except ValidationError:
        return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(goal_cleaning, "MAX_CLOSER_LOOK", room)
        patch.setattr(goal_cleaning, "MAX_UNSEEN", room)
        at_a_glance = clean_goal(goal)
        patch.setattr(goal_cleaning, "MAX_UNSEEN", -1)

        assert at_a_glance == clean_goal(goal)


@given(GOALS, MORE)
def test_fields_are_named_where_some_are_unknown(body: dict[str, Any], more: dict[str, Any]) -> None:
    try:
        goal = Goal.model_validate({**body, **more})
    except ValidationError:
        return

    assert len(name_unknown_fields(goal).pointers) == unknown_fields(goal) == len(more)
