"""A step is read as it was stored, and what a newer version added is kept."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas import codec
from schemas.step import OMITTED, Place, PlannedStep, VerifyTool, pack_step
from schemas.stored.step import (
    MOST_TEXTS,
    depends_on,
    queue_of,
    read_step,
    shared_texts,
    store_step,
    unpack_step,
    window_of,
)
from tests.support.any_plan import drafts

WORDS = st.text(st.sampled_from("a b&'\"é"), max_size=12)
TOOLS = st.lists(
    st.builds(
        VerifyTool,
        tool=WORDS,
        argv=st.lists(WORDS, max_size=4).map(tuple),
        timeout_s=st.integers(0, 9999),
        pass_codes=st.lists(st.integers(0, 255), max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)
SHOWN = st.sampled_from(["", "a", "a && b", " && ", "a  b"]) | WORDS
SELDOM = st.fixed_dictionaries(
    {},
    optional={
        "queue": WORDS,
        "phase": WORDS,
        "keeps_answer": st.booleans(),
        "retry_limit": st.integers(0, 9),
        "allowed_patterns": st.lists(st.sampled_from(["src/**", "a?b", "é/*"]), max_size=3).map(tuple),
        "excluded_patterns": st.lists(st.sampled_from(["**/*.pth", "src/**"]), max_size=3).map(tuple),
        "focus": st.lists(st.builds(Place, path=WORDS, lines=st.none() | WORDS, why=WORDS), max_size=2).map(tuple),
        "requires": st.sampled_from([(), ("patterns",)]),
    },
)
MORE = st.dictionaries(st.sampled_from(["later", "newer"]), st.sampled_from([1, True, "x", [], {}]), max_size=1)
WINDOWS = st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,9}", fullmatch=True), max_size=64)


def by_name(step: PlannedStep) -> dict[str, Any]:
    found: dict[str, Any] = codec.loads(pack_step(step))
    return OMITTED | found


@given(drafts(), TOOLS, SHOWN, SELDOM, MORE, MORE, WINDOWS)
def test_an_array_says_of_a_step_what_its_fields_by_name_say(
    steps: list[PlannedStep],
    tools: tuple[VerifyTool, ...],
    shown: str,
    seldom: dict[str, Any],
    more: dict[str, Any],
    below: dict[str, Any],
    window: list[str],
) -> None:
    steps = [steps[0].model_copy(update={"verify_tools": tools, "verify": shown, **seldom, **more}), *steps[1:]]
    task = steps[-1].controller_task_spec.model_copy(update={"target_file": shown or None, **below})
    steps = [*steps[:-1], steps[-1].model_copy(update={"controller_task_spec": task})]
    texts = shared_texts(steps)

    for step in steps:
        stored = store_step(step, window, {text: place for place, text in enumerate(texts)})

        assert codec.dumps(read_step(stored, texts)) == pack_step(step)
        assert unpack_step(store_step(step)) == by_name(step)
        assert window_of(stored) == window
        assert (queue_of(stored), depends_on(stored)) == (step.queue, list(step.depends_on))
        assert len(store_step(step)) < len(pack_step(step))


@given(drafts())
def test_no_more_texts_than_so_many_stand_beside_steps(steps: list[PlannedStep]) -> None:
    many = [
        step.model_copy(update={"title": f"{step.title} of many {place // 2}"}) for place, step in enumerate(steps * 40)
    ]

    texts = shared_texts(many)

    assert len(texts) <= MOST_TEXTS
    assert len(set(texts)) == len(texts)
