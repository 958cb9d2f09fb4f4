"""Whatever earlier steps answer: a step is given at most four of the nearest, within their sizes, and no attack."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.base import Mode, StepType
from schemas.step import ControllerTaskSpec, PlannedStep
from tasks.features.answers import MAX_ANSWER, MAX_ANSWERS
from tasks.strategies.drafting.answers import connect_answers
from tasks.text.sanitize import Treatment, sanitize
from tests.support.attacks import TEXTS
from tests.support.commands import order
from tests.support.plans import Running, a_report, a_step

SAID = st.one_of(
    TEXTS,
    st.tuples(TEXTS, st.integers(1, 400)).map(lambda pair: "\n".join([pair[0]] * pair[1])),
    st.dictionaries(st.sampled_from(["files", "notes"]), st.lists(TEXTS, max_size=3), max_size=2),
    st.none(),
)


def a_look(name: str, *after: str) -> PlannedStep:
    spec = {"mode": Mode.READ_ONLY, "controller_task_spec": ControllerTaskSpec(type=StepType.READ)}
    return a_step(name, *after, files=()).model_copy(update=spec)


@settings(deadline=None, max_examples=15)
@given(st.lists(SAID, min_size=1, max_size=6), st.sets(st.integers(1, 5)))
def test_a_step_is_given_few_and_harmless_answers_nearest_first(said: list[Any], skipped: set[int]) -> None:
    names = [f"look-{number}" for number in range(len(said))]
    looks = [a_look(name, *names[number - 1 : number] if number else ()) for number, name in enumerate(names)]
    plan = Running(*connect_answers([*looks, a_step("fix", names[-1])]))
    answered = [name for number, name in enumerate(names) if number not in skipped]
    for name in {*names} - {*answered}:
        order(plan, "skip", name, order_id=name)
    for name, output in zip(names, said, strict=True):
        if name in answered:
            plan.report(a_report(name, output=output))

    (spec,) = (each for each in plan.specs if each["step_id"] == "fix")
    answers = spec["context"].get("answers", [])
    assert spec["answers_from"] == names[:-5:-1]
    given_by = [each["step_id"] for each in answers]
    assert given_by == [name for name in spec["answers_from"] if name in given_by]
    assert {*given_by} <= {*answered}
    sizes = [len(each["output"].encode()) for each in answers]
    assert max(sizes, default=0) <= MAX_ANSWER
    assert sum(sizes) <= MAX_ANSWERS
    assert not any(sanitize(each["output"], Treatment.FLAG).findings for each in answers)
