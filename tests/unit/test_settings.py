"""Settings: defaults, sentences for what is wrong, and the table in docs/settings.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import annotated_types
import pytest
from pydantic.fields import FieldInfo

from worker.settings.settings import Settings, WrongSettings, load, variables

DOCS = Path(__file__).parents[2] / "docs/settings.md"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("PLANNER_") or name == "SENTRY_DSN":
            monkeypatch.delenv(name)


def sentences() -> list[str]:
    with pytest.raises(WrongSettings) as wrong:
        load()
    return str(wrong.value).splitlines()


def test_nothing_has_to_be_set() -> None:
    settings = load()

    assert settings.redis_url == settings.broker == "redis://localhost:6379/0"
    assert settings.partitions == 1
    assert settings.retention_s == 30 * 86_400
    assert settings.sentry_dsn is None
    assert not settings.allow_unsafe_redis


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_PARTITIONS", "16")
    monkeypatch.setenv("PLANNER_BROKER_URL", "redis://broker:6379/1")
    monkeypatch.setenv("SENTRY_DSN", "https://key@sentry.example/1")

    settings = load()

    assert settings.partitions == 16
    assert settings.broker == "redis://broker:6379/1"
    assert settings.sentry_dsn == "https://key@sentry.example/1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PLANNER_PARTITIONS", "0"),
        ("PLANNER_PARTITIONS", "257"),
        ("PLANNER_PARTITIONS", "many"),
        ("PLANNER_PARTITIONS", ""),
        ("PLANNER_MAX_GOAL_BYTES", "1023"),
        ("PLANNER_MAX_FAILURES", "0"),
        ("PLANNER_RETENTION_DAYS", "0"),
        ("PLANNER_CLAIM_IDLE_S", "soon"),
        ("PLANNER_LOG_LEVEL", "LOUD"),
        ("PLANNER_REDIS_URL", "redis+sentinel://host:26379"),
        ("PLANNER_WATCHDOG_S", "0"),
        ("PLANNER_STOP_S", "-1"),
        ("PLANNER_ALLOW_UNSAFE_REDIS", "perhaps"),
    ],
)
def test_a_wrong_value_stops_the_start_with_one_sentence(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)

    (sentence,) = sentences()

    assert sentence.startswith(f"{name}: ")
    assert sentence.endswith(f", not {value!r}.")


def test_every_wrong_value_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_PARTITIONS", "0")
    monkeypatch.setenv("PLANNER_LOG_LEVEL", "LOUD")
    monkeypatch.setenv("PLANNER_COLOUR", "green")

    assert [sentence.split()[0].rstrip(":") for sentence in sentences()] == [
        "PLANNER_COLOUR",
        "PLANNER_PARTITIONS",
        "PLANNER_LOG_LEVEL",
    ]


@pytest.mark.parametrize(
    ("name", "meant"), [("PLANNER_REDIS_URI", "PLANNER_REDIS_URL"), ("PLANNER_PARTITION", "PLANNER_PARTITIONS")]
)
def test_a_misspelt_name_is_told_with_the_one_that_was_meant(
    name: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "1")

    assert sentences() == [f"{name} is not a setting; did you mean {meant}?"]


def test_a_name_that_resembles_none_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANNER_XYZZY_XYZZY_PLUGH", "1")

    assert sentences() == ["PLANNER_XYZZY_XYZZY_PLUGH is not a setting."]


def test_variables_of_others_are_no_business_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://elsewhere")

    assert load().redis_url == "redis://localhost:6379/0"


# --- docs/settings.md ---


def _row(name: str, field: FieldInfo) -> str:
    default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    shown = "" if default in (None, "") else f"`{default}`"
    return f"| `{variables(name)[0]}` | {shown} | {_values(field)} | {field.description} |"


def _values(field: FieldInfo) -> str:
    """Say which values the field takes, where that is not plain from its default."""
    signs = {annotated_types.Ge: ("≥", "ge"), annotated_types.Gt: (">", "gt"), annotated_types.Le: ("≤", "le")}
    bounds = [(signs[type(bound)], bound) for bound in field.metadata if type(bound) in signs]
    words = [*dict.fromkeys(_words(field.annotation))]
    return ", ".join(words or [f"{sign} {getattr(bound, attribute)}" for (sign, attribute), bound in bounds])


def _words(annotation: Any) -> Iterator[str]:
    """Yield the words that a type, or a list of it, can be."""
    for part in get_args(annotation):
        yield from (part,) if isinstance(part, str) else _words(part)


def test_the_documented_table_is_the_model() -> None:
    table = [_row(name, field) for name, field in Settings.model_fields.items()]

    assert re.findall(r"^\| `(?:PLANNER_|SENTRY_).*\|$", DOCS.read_text(), re.MULTILINE) == table


if __name__ == "__main__":  # python -m tests.unit.test_settings prints the table for docs/settings.md
    for name, field in Settings.model_fields.items():
        print(_row(name, field))  # noqa: T201
