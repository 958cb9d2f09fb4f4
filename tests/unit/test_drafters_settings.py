"""The settings of drafters: old names, what each drafter needs, and whom a goal may have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from schemas import codec
from schemas.base import GoalKind
from schemas.envelope import FieldError
from schemas.goal import Goal
from tasks.rules.strategy import Consult, Rejected, Setting
from worker import drafters
from worker.cli.commands import submit
from worker.cli.commands.app import app
from worker.cli.console import USAGE
from worker.drafters import DROPPED
from worker.drafters.base import WrongDrafter
from worker.drafters.codex import CodexCliBackend
from worker.drafters.consulting import Consulting, choose, schema_mode
from worker.settings.settings import Settings, WrongSettings, load
from worker.store.publishing import Sent

HERE = "tests.support.backends"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("PLANNER_", "WORKER_")) or name in {"OPENAI_API_KEY", *DROPPED}:
            monkeypatch.delenv(name)


def set_all(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("old", "value", "field", "meant"),
    [
        ("MAX_ATTEMPTS", "5", "planning_max_attempts", 5),
        ("TIMEOUT_SECONDS", "12.5", "planning_timeout_seconds", 12.5),
        ("BACKEND", f"{HERE}:instance", "planning_backend", f"{HERE}:instance"),
        ("VALIDATION_MODE", "strict", "planning_validation_mode", "strict"),
        ("CODEX_SCHEMA_MODE", "prompt", "planning_schema_mode", "prompt"),
        ("CODEX_BIN", "/opt/codex", "planning_codex_bin", "/opt/codex"),
        ("CODEX_PROFILE", "planning", "planning_codex_profile", "planning"),
        ("SCHEMA_PATH", "/etc/schema.json", "planning_schema_path", Path("/etc/schema.json")),
        ("TRAJECTORY_BLOCK_SIZE", "4", "planning_trajectory_block_size", 4),
        ("TRAJECTORY_MAX_CHUNKS", "0", "planning_trajectory_max_chunks", 0),
        ("TRAJECTORY_MAX_RAW_STEPS", "9", "planning_trajectory_max_raw_steps", 9),
        ("TRAJECTORY_SUMMARY_MODEL", "small", "planning_trajectory_summary_model", "small"),
        ("TRAJECTORY_SUMMARY_MAX_CHARS", "64", "planning_trajectory_summary_max_chars", 64),
    ],
)
def test_an_old_name_is_read_where_ours_is_not_set(
    old: str, value: str, field: str, meant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = getattr(load(), field)
    set_all(monkeypatch, **{f"WORKER_PLANNING_{old}": value})
    assert getattr(load(), field) == meant

    name = "SCHEMA_MODE" if old == "CODEX_SCHEMA_MODE" else old
    ours = f"{HERE}:factory" if old == "BACKEND" else str(default if default is not None else "other")
    set_all(monkeypatch, **{f"PLANNER_PLANNING_{name}": ours})
    assert str(getattr(load(), field)) == ours


def test_the_environment_of_an_agent_has_its_old_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, WORKER_PLANNING_EXTRA_ENV='{"A": "b"}')

    assert {name: value.get_secret_value() for name, value in (load().cli_env or {}).items()} == {"A": "b"}


def test_the_time_of_an_agent_has_its_old_name_too(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, WORKER_PLANNING_TIMEOUT_SECONDS="60")
    assert load().cli_timeout_s == 60

    set_all(monkeypatch, PLANNER_CLI_TIMEOUT_S="70")
    assert (load().cli_timeout_s, load().planning_timeout_seconds) == (70, 60)


@pytest.mark.parametrize("name", DROPPED)
def test_an_old_name_that_nobody_reads_is_told_once(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    drafters.warn()
    assert caplog.messages == []

    set_all(monkeypatch, **{name: "hunter2"})
    drafters.warn()

    (told,) = caplog.messages
    assert told.startswith(f"{name} is not read here: ")
    assert "hunter2" not in told


@pytest.mark.parametrize(("mode", "in_prompt"), [("auto", True), ("native", False), ("prompt", True), ("none", True)])
def test_the_schema_stands_in_the_prompt_unless_the_interface_has_it(mode: Any, in_prompt: bool) -> None:
    assert Settings(planning_schema_mode=mode).planning["schema_in_prompt"] is in_prompt


@pytest.mark.parametrize(
    ("drafter", "command", "mode", "schema", "told"),
    [
        ("http", (), "auto", {}, "native"),
        ("backend", (), "auto", {}, "native"),
        ("cli", ("agent", "--schema={schema_file}"), "auto", {}, "native"),
        ("cli", ("agent",), "auto", {}, "prompt"),
        ("cli", ("agent",), "none", {}, "none"),
        ("http", (), "prompt", {}, "prompt"),
        ("http", (), "native", None, "none"),
    ],
)
def test_how_a_drafter_is_told_the_schema_is_known(
    drafter: str, command: Any, mode: Any, schema: Any, told: str
) -> None:
    given = Settings(cli_command=command, planning_schema_mode=mode)

    assert schema_mode(given, drafter, Consult("Plan it", schema)) == told


def test_what_strategies_are_told_has_short_names(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, PLANNER_PLANNING_FALLBACK="reject", PLANNER_PLANNING_SCHEMA_MODE="native")

    assert (
        load().planning.items()
        >= {
            "max_attempts": 2,
            "validation_mode": "lenient",
            "schema_mode": "native",
            "schema_in_prompt": False,
            "fallback": "reject",
            "trajectory_block_size": 8,
            "trajectory_max_chunks": 3,
            "trajectory_max_raw_steps": 6,
            "trajectory_summary_model": None,
            "trajectory_summary_max_chars": 800,
        }.items()
    )
    assert not {"backend", "timeout_seconds", "debug_dir"} & load().planning.keys()


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"PLANNER_DRAFTERS": "http"}, "PLANNER_LLM_MODEL: the drafter http needs the name of a model."),
        (
            {"PLANNER_DRAFTERS": "http", "PLANNER_LLM_MODEL": "small"},
            "PLANNER_LLM_MODEL: small names no provider as openai:small does, nor does PLANNER_LLM_BASE_URL.",
        ),
        ({"PLANNER_DRAFTERS": "none, cli"}, "PLANNER_CLI_COMMAND: the drafter cli needs a command."),
        ({"PLANNER_DRAFTER": "cli"}, "PLANNER_DRAFTER: cli is not among PLANNER_DRAFTERS."),
        ({"PLANNER_DRAFTERS": "telepathy"}, "PLANNER_DRAFTERS: Input should be"),
        ({"PLANNER_PLANNING_FALLBACK": "hope"}, "PLANNER_PLANNING_FALLBACK: Input should be"),
        ({"PLANNER_PLANNING_MAX_ATTEMPTS": "0"}, "PLANNER_PLANNING_MAX_ATTEMPTS: "),
        ({"WORKER_PLANNING_VALIDATION_MODE": "odd"}, "PLANNER_PLANNING_VALIDATION_MODE: "),
        ({"PLANNER_CLI_COMMAND": "['a"}, "PLANNER_CLI_COMMAND: "),
        ({"PLANNER_CLI_COMMAND": "a 'b"}, "PLANNER_CLI_COMMAND: "),
        ({"PLANNER_CLI_ENV": "hunter2-is-no-json"}, "PLANNER_CLI_ENV: "),
        ({"PLANNER_LLM_BASE_URL": "ftp://x"}, "PLANNER_LLM_BASE_URL: "),
    ],
)
def test_what_is_lacking_or_wrong_is_a_sentence(
    variables: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_all(monkeypatch, **variables)

    with pytest.raises(WrongSettings) as wrong:
        load()

    assert str(wrong.value).startswith(sentence)
    assert "hunter2" not in str(wrong.value)


@pytest.mark.parametrize(
    "command", ["agent -p 'two words' {schema_file}", '["agent", "-p", "two words", "{schema_file}"]']
)
def test_a_command_is_words_or_a_list(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, PLANNER_CLI_COMMAND=command)

    assert load().cli_command == ("agent", "-p", "two words", "{schema_file}")


# --- whether they can be used here ---


def test_drafters_that_can_be_used_are_found_to_be_fine(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()

    drafters.check(
        Settings(
            drafters=("none", "queue", "cli", "backend"),
            cli_command=("sh", "-c", "true"),
            cli_working_dir=tmp_path,
            planning_backend=f"{HERE}:instance",
        )
    )


def test_every_drafter_that_cannot_be_used_is_told_at_once() -> None:
    wrong = {"cli_command": ("no-such-program",), "planning_backend": "os:nothing"}

    with pytest.raises(WrongDrafter) as told:
        drafters.check(Settings(drafters=("cli", "backend"), **wrong))  # type: ignore[arg-type]

    assert [line.split(":")[0] for line in str(told.value).splitlines()] == [
        "PLANNER_CLI_COMMAND",
        "PLANNER_PLANNING_BACKEND",
    ]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"planning_codex_bin": "no-such-codex"}, "PLANNER_PLANNING_CODEX_BIN: there is no program 'no-such-codex'"),
        (
            {"planning_backend": "CodexCliBackend", "planning_codex_bin": "sh", "planning_schema_path": Path("/none")},
            "PLANNER_PLANNING_SCHEMA_PATH: /none cannot be read",
        ),
    ],
)
def test_the_backend_is_codex_unless_another_is_named(given: dict[str, Any], sentence: str) -> None:
    assert isinstance(drafters.drafter_of(Settings(planning_codex_bin="sh"), "backend"), CodexCliBackend)
    with pytest.raises(WrongDrafter, match=sentence):
        drafters.check(Settings(drafters=("backend",), **given))


def test_those_that_are_not_enabled_are_not_looked_at() -> None:
    drafters.check(Settings(drafters=("none", "queue"), cli_command=("no-such-program",)))


def test_the_extra_that_http_needs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "worker.drafters.http", None)

    with pytest.raises(WrongDrafter, match=r"needs the extra `llm`"):
        drafters.check(Settings(drafters=("http",), llm_model="openai:x"))


@pytest.mark.parametrize("command", [["worker"], ["up"]])
def test_a_worker_does_not_start_with_a_drafter_that_cannot_be_used(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_all(monkeypatch, PLANNER_DRAFTERS="cli", PLANNER_CLI_COMMAND="no-such-program --flag")

    ended = CliRunner().invoke(app, command)

    assert ended.exit_code == USAGE
    assert ended.stderr == "PLANNER_CLI_COMMAND: there is no program 'no-such-program' to run.\n"


# --- whom a goal gets ---

TASK, CAMPAIGN, EVOLUTION = GoalKind.TASK, GoalKind.CAMPAIGN, GoalKind.EVOLUTION


@pytest.mark.parametrize(
    ("kind", "asked", "enabled", "usual", "name"),
    [
        (TASK, None, ("queue", "http"), None, "none"),
        (TASK, "http", ("queue", "http"), None, "http"),
        (TASK, "none", ("queue",), "queue", "none"),
        (TASK, None, ("queue", "http"), "http", "http"),
        (CAMPAIGN, None, ("queue",), None, "queue"),
        (EVOLUTION, None, ("queue",), None, "queue"),
        (EVOLUTION, "http", ("http",), None, "http"),
        (GoalKind.GAP_REPORT, None, ("http",), "http", "none"),
        (GoalKind.REVIEWED_PLAN, "none", ("http",), "http", "none"),
    ],
)
def test_a_goal_has_the_drafter_it_asks_for_or_the_usual_one(
    kind: GoalKind, asked: str | None, enabled: Any, usual: Any, name: str
) -> None:
    assert choose(kind, asked, Settings(drafters=enabled, drafter=usual)) == name


@pytest.mark.parametrize(
    ("kind", "asked", "enabled", "told"),
    [
        (TASK, "http", ("queue",), "The drafter http is not enabled here; there are none, queue."),
        (TASK, "sh -c 'id'\n", ("none",), "The drafter sh -c 'id' is not enabled here; there are none."),
        (EVOLUTION, None, ("http",), "The drafter queue of the kind evolution is not enabled here"),
        (GoalKind.GAP_REPORT, "http", ("http",), "A goal of the kind gap_report is planned without a drafter."),
    ],
)
def test_a_goal_is_told_why_it_cannot_have_the_one_it_asks_for(
    kind: GoalKind, asked: str | None, enabled: Any, told: str
) -> None:
    found = choose(kind, asked, Settings(drafters=enabled))

    assert isinstance(found, FieldError)
    assert (found.pointer, found.code) == ("/drafter", "drafter_not_enabled")
    assert found.message.startswith(told)


def test_a_goal_is_planned_in_the_setting_of_its_drafter() -> None:
    given = Settings(drafters=("queue", "http"), planning_fallback="reject")
    consulting = Consulting(None, given)  # type: ignore[arg-type]

    found = consulting.setting(Goal(goal="Fix it", drafter="http"))
    refused = consulting.setting(Goal(goal="Fix it", drafter="cli"))

    assert isinstance(found, Setting)
    assert (found.drafter, found.options["fallback"]) == ("http", "reject")
    assert isinstance(refused, Rejected)
    assert refused.reason == "drafter_not_enabled"


def test_who_drafts_can_be_asked_for_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    @contextmanager
    def open_planner() -> Iterator[Any]:
        yield SimpleNamespace(publish=publish, settings=SimpleNamespace(max_goal_bytes=10_000))

    def publish(data: bytes, *__: str | None, once: bool) -> Sent:
        sent.append(codec.loads(data))
        return Sent("1-1", "1-1")

    monkeypatch.setattr(submit, "open_planner", open_planner)

    ended = CliRunner().invoke(app, ["submit", "--goal", "Fix it", "--file", "a.py", "--drafter", "http"])

    assert ended.exit_code == 0
    assert sent == [{"goal": "Fix it", "allowed_files": ["a.py"], "drafter": "http"}]


def test_a_plan_waits_for_its_drafter_longer_than_all_of_its_questions_take() -> None:
    given = Settings(llm_timeout_s=10, cli_timeout_s=30, planning_timeout_seconds=20, planning_max_attempts=3)

    assert Consulting(None, given).patience_ms == 150_000  # type: ignore[arg-type]
