"""The input of an evolution goal: every limit of it, and what is filled in where little is given."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from schemas.base import unknown_fields
from schemas.goal import Goal
from schemas.kinds.evolution import CommitCard, CommitMetric, CommitPlanningContext, Evolution

BASE = {"commit_hash": "b"}


def takes(raw: dict[str, Any]) -> bool:
    try:
        Evolution.model_validate({"base": BASE} | raw)
    except ValidationError:
        return False
    return True


def in_base(name: str, value: Any) -> dict[str, Any]:
    return {"base": BASE | {name: value}}


def in_metric(name: str, value: Any) -> dict[str, Any]:
    return in_base("metrics", [{"name": "m", "value": 1} | {name: value}])


def in_card(name: str, value: Any) -> dict[str, Any]:
    return {"commit_cards": [{"commit_hash": "c"} | {name: value}]}


def in_summary(name: str, value: Any) -> dict[str, Any]:
    return {"chunk_summaries": [{"start_commit_hash": "a", "end_commit_hash": "b", "summary": "s"} | {name: value}]}


def at_top(name: str, value: Any) -> dict[str, Any]:
    return {name: value}


@pytest.mark.parametrize(
    ("place", "name", "most", "least"),
    [
        (at_top, "goal", 512, 1),
        (at_top, "iteration_hint", 256, 0),
        (at_top, "experiment_root", 64, 1),
        (in_base, "commit_hash", 64, 1),
        (in_card, "commit_hash", 64, 1),
        (in_card, "parent_commit_hash", 64, 1),
        (in_summary, "start_commit_hash", 64, 1),
        (in_summary, "summary", 4096, 1),
    ],
)
def test_a_text_is_taken_up_to_its_limit(place: Any, name: str, most: int, least: int) -> None:
    taken = {size: takes(place(name, "x" * size)) for size in (0, 1, most, most + 1)}

    assert taken == {0: not least, 1: True, most: True, most + 1: False}


@pytest.mark.parametrize(
    ("place", "name", "item", "most", "longest"),
    [
        (at_top, "constraints", "x", 20, 200),
        (at_top, "acceptance_criteria", "x", 20, 200),
        (in_base, "trajectory", "x", 100, 1000),
    ],
)
def test_a_list_is_taken_up_to_its_limits(place: Any, name: str, item: str, most: int, longest: int) -> None:
    assert takes(place(name, [item] * most))
    assert not takes(place(name, [item] * (most + 1)))
    assert takes(place(name, [item * longest]))
    assert not takes(place(name, [item * (longest + 1)]))


@pytest.mark.parametrize("model", [CommitPlanningContext, CommitCard])
@pytest.mark.parametrize(("name", "most"), [("subject", 72), ("change_summary", 512), ("evaluation_summary", 512)])
def test_a_text_of_a_card_that_is_too_long_is_cut(model: type[CommitCard], name: str, most: int) -> None:
    whole, cut = (getattr(model.model_validate(BASE | {name: "x" * size}), name) for size in (most, most + 1))

    assert whole == "x" * most
    assert cut == "x" * (most - 1) + "…"


@pytest.mark.parametrize("model", [CommitPlanningContext, CommitCard])
@pytest.mark.parametrize(("name", "most", "longest"), [("key_files", 20, 256), ("highlights", 8, 200)])
def test_of_a_list_of_a_card_the_first_are_taken_and_cut(
    model: type[CommitCard], name: str, most: int, longest: int
) -> None:
    items = [str(number) for number in range(most)]

    assert list(getattr(model.model_validate(BASE | {name: [*items, "more"]}), name)) == items
    assert getattr(model.model_validate(BASE | {name: ["x" * 1000]}), name) == ("x" * (longest - 1) + "…",)


def test_the_texts_of_a_metric_are_cut_and_a_card_has_a_hundred() -> None:
    long = {"name": "n" * 200, "value": 1, "unit": "u" * 200, "summary": "s" * 200}
    metrics = CommitCard.model_validate(BASE | {"metrics": [long] * 101}).metrics

    assert len(metrics) == 100
    assert [len(each or "") for each in (metrics[0].name, metrics[0].unit, metrics[0].summary)] == [128, 32, 120]
    assert not takes(in_metric("name", ""))


@pytest.mark.parametrize(
    ("raw", "taken"),
    [
        ({"inspirations": [BASE] * 10}, True),
        ({"inspirations": [BASE] * 11}, False),
        ({"validation_mode": "strict"}, True),
        ({"validation_mode": "STRICT"}, False),
        ({"validation_mode": None}, True),
        (in_metric("value", float("nan")), False),
        (in_metric("value", float("inf")), False),
        (in_metric("value", "fast"), False),
        (in_base("objective", float("nan")), False),
        (in_base("commit_hash", "a b"), False),
        (in_summary("block_size", 0), False),
        ({"base": None}, False),
    ],
)
def test_what_else_is_taken(raw: dict[str, Any], taken: bool) -> None:
    assert takes(raw) is taken


def test_the_base_is_all_that_must_be_given() -> None:
    given = Evolution.model_validate({"base": BASE})

    assert (given.inspirations, given.constraints, given.commit_cards, given.cold_start) == ((), (), (), False)
    assert (given.goal, given.validation_mode, given.iteration_hint, given.experiment_root) == (None,) * 4


@pytest.mark.parametrize(("subject", "told"), [("", "Commit b"), (" \t", "Commit b"), (" a \n  b ", "a b")])
@pytest.mark.parametrize("model", [CommitPlanningContext, CommitCard])
def test_a_subject_is_collapsed_and_named_where_it_is_blank(
    model: type[CommitCard] | type[CommitPlanningContext], subject: str, told: str
) -> None:
    found = model.model_validate({"commit_hash": "b", "subject": subject, "change_summary": " "})

    assert (found.subject, found.change_summary) == (told, "N/A")


@pytest.mark.parametrize("prefix", ["", "map_elites_"])
def test_the_place_in_the_archive_has_two_spellings(prefix: str) -> None:
    raw = {"commit_hash": "b", f"{prefix}cell_index": 4, f"{prefix}objective": 0.5, f"{prefix}measures": [1, 2]}
    found = CommitPlanningContext.model_validate(raw)

    assert (found.cell_index, found.objective, found.measures) == (4, 0.5, (1.0, 2.0))
    assert unknown_fields(found) == 0


def test_a_metric_has_every_field_of_its_document() -> None:
    assert set(CommitMetric.model_fields) == {"name", "value", "unit", "higher_is_better", "summary"}


def test_a_goal_with_its_input_survives_being_stored() -> None:
    raw = {"base": BASE | {"cell_index": 3, "measures": [0.1]}, "commit_cards": [{"commit_hash": "c"}]}
    goal = Goal.model_validate({"goal": "x", "kind": "evolution", "evolution": raw})

    assert Goal.model_validate_json(goal.model_dump_json(exclude_defaults=True)) == goal
