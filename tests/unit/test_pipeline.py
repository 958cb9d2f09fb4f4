"""The tables of features: which there are once handlers can be imported, and when features are idle."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from schemas.stored import LogHead
from schemas.stored.features import Probe
from tasks import features
from tasks.features import FEATURES
from tasks.policy import pipeline
from tasks.policy.pipeline import Feature, Table, keeping, limited, never, questions_about
from tests.support.plans import Running, a_step


def tables() -> dict[str, list[Any]]:
    found: dict[str, Any] = {name: value for name, value in vars(pipeline).items() if isinstance(value, Table)}
    return found | {command.value: table for command, table in pipeline.ON_COMMAND.items()}


def test_no_table_is_empty_and_no_row_is_lost() -> None:
    lengths = {name: len(rows) for name, rows in tables().items()}

    assert min(lengths.values()) > 0
    assert sum(lengths.values()) == sum(len(feature.rows) for feature in FEATURES)


def test_every_module_of_features_is_among_them() -> None:
    folder = Path(features.__file__).parent
    modules = {path.stem for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}

    assert modules - {"__init__"} <= {feature.name for feature in FEATURES}


def test_features_are_idle_about_a_plan_of_which_they_keep_nothing() -> None:
    plan = Running(a_step("a")).record

    assert [each.name for each in FEATURES if not each.is_idle(plan) and each.is_idle_about is never] == []


def test_a_feature_that_does_not_declare_when_it_is_idle_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    new = Feature("new", ())
    monkeypatch.setattr(pipeline, "IDLE", [*pipeline.IDLE, (new.is_idle, new.is_idle_about)])

    assert never in questions_about(Running(a_step("a")).record)


def test_no_feature_is_idle_before_features_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "IDLE", [])

    assert questions_about(Running(a_step("a")).record) == [never]


def test_a_row_is_asked_only_about_plans_and_steps_that_it_is_about() -> None:
    asked: list[str] = []
    plan, table = Running(a_step("a"), delivery={"push": True}).record, Table[Any]()
    outcome = SimpleNamespace(needs="files", patterns=None)
    step = SimpleNamespace(facts={"with": True, "without": False}, outcome=outcome, category="FLAKY_TEST")
    conditions: dict[str, dict[str, Any]] = {
        "limited": {"only": limited("delivery_wait_s")},
        "not limited": {"only": limited("mends")},
        "keeping": {"only": keeping(LogHead)},
        "not keeping": {"only": keeping(Probe)},
        "fact": {"fact": "with"},
        "no fact": {"fact": "without"},
        "both": {"only": limited("delivery_wait_s"), "fact": "with"},
        "told": {"told": "needs"},
        "not told": {"told": "patterns"},
        "of": {"of": ("FLAKY_TEST",)},
        "of others": {"of": ("LINT_ERROR",)},
    }
    for name, condition in conditions.items():
        table.row(lambda *_, name=name: asked.append(name), **condition)()
    for row in table:
        row(SimpleNamespace(plan=plan), step)
        row(SimpleNamespace(plan=plan), SimpleNamespace(**vars(step), step=step))  # as judges are asked

    assert asked == [name for name in ("limited", "keeping", "fact", "both", "told", "of") for _ in range(2)]
