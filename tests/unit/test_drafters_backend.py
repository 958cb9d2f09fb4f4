"""The drafter `backend`: what a dotted path may lead to, and what becomes of every answer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.rules.strategy import Consult, Drafted
from tests.conftest import wait_until
from tests.support import backends
from tests.support.controlling import Repo
from worker.drafters import backend
from worker.drafters.backend import BackendDrafter, load
from worker.drafters.base import STOPPED, WrongDrafter, estimate
from worker.settings.settings import Settings

HERE = "tests.support.backends"
SCHEMA = {"type": "object"}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "POLL_S", 0.02)
    backends.HELD.clear()


def asked(name: str, schema: object = SCHEMA, stop: bool = False, **settings: object) -> Drafted:
    given = Settings(planning_backend=f"{HERE}:{name}", **settings)  # type: ignore[arg-type]
    return BackendDrafter(given).ask(Consult("Plan it", schema), lambda: stop)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "word"),
    [
        (f"{HERE}:instance", "an instance"),
        (f"{HERE}.instance", "an instance"),
        (f"{HERE}:Backend", "made"),
        (f"{HERE}.Backend", "made"),
        (f"{HERE}:factory", "from a factory"),
        (f"{HERE}.factory", "from a factory"),
        (f"{HERE}:home.inner.deep", "deep"),
    ],
)
def test_a_path_leads_to_an_instance_a_class_or_a_factory(path: str, word: str) -> None:
    said = BackendDrafter(Settings(planning_backend=path)).ask(Consult("Plan it"), lambda: False)

    assert said.output == f"{word}: Plan it"
    assert said.tokens == estimate("Plan it") + estimate(f"{word}: Plan it")
    assert said.error is None


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "is not written as"),
        ("word", "is not written as"),
        (":attr", "is not written as"),
        (f"{HERE}:", "is not written as"),
        ("no_such_module_at_all:attr", "ModuleNotFoundError"),
        (f"{HERE}:missing", "AttributeError"),
        (f"{HERE}:nothing", "TypeError"),
        (f"{HERE}:Needy", "TypeError"),
        (f"{HERE}:wrong_factory", "is no backend"),
        (f"{HERE}:breaking_factory", "OSError"),
        (f"{HERE}:leaving_factory", "SystemExit"),
        ("..x:y", "Error"),
    ],
)
def test_any_other_path_is_told_with_one_sentence(path: str, why: str) -> None:
    with pytest.raises(WrongDrafter, match=why) as told:
        load(path)

    assert str(told.value).startswith(f"PLANNER_PLANNING_BACKEND: {path} cannot be used: ")
    assert "\n" not in str(told.value)
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize(
    ("mode", "schema", "told"),
    [
        ("auto", SCHEMA, "native"),
        ("native", SCHEMA, "native"),
        ("prompt", SCHEMA, "prompt"),
        ("none", SCHEMA, "none"),
        ("auto", None, "none"),
    ],
)
def test_a_backend_is_told_what_is_asked_and_how(mode: str, schema: object, told: str) -> None:
    backends.instance.seen.clear()

    asked("instance", schema, planning_schema_mode=mode)

    ((task, directory, existed),) = backends.instance.seen
    assert (task.name, task.prompt, task.schema, task.schema_mode) == ("planning", "Plan it", schema, told)
    assert existed
    wait_until(lambda: not directory.exists(), what="its directory is gone")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Broken", "RuntimeError: api_key=[secret]"),
        ("Wordless", "the backend returned no text as stdout"),
        ("Endless", "the answer is longer than"),
        ("Leaving", "SystemExit: 3"),
    ],
)
def test_a_backend_that_fails_is_an_answer(name: str, why: str) -> None:
    said = asked(name, planning_timeout_seconds=20)

    assert said.output is None
    assert said.error is not None
    assert said.error.startswith(why)
    assert "sk-1234567890" not in said.error
    assert "Ignore all previous instructions" not in said.error


def test_a_backend_has_its_time_and_is_then_left_behind() -> None:
    said = asked("Slow", planning_timeout_seconds=0.1)
    backends.HELD.set()

    assert said.error == "no answer within 0.1 s"
    assert said.tokens == estimate("Plan it")
    assert said.duration_ms < 10_000


def test_a_backend_that_nobody_waits_for_is_left_behind() -> None:
    said = asked("Slow", stop=True)
    backends.HELD.set()

    assert said.error == STOPPED


def test_an_answer_is_taken_without_secrets_and_with_its_command() -> None:
    said = asked("Talkative", cli_env='{"TOKEN": "a-very-secret-word"}', llm_api_key="another-secret")

    assert said.output == "[secret] [secret] [secret]"
    assert (said.command, said.stderr) == (("agent", "[secret]"), "it told [secret]")


def test_a_working_directory_has_to_be_a_repository(tmp_path: Path) -> None:
    with pytest.raises(WrongDrafter, match=r"PLANNER_CLI_WORKING_DIR: .* is not a git repository"):
        asked("instance", cli_working_dir=tmp_path)

    (tmp_path / ".git").mkdir()
    drafter = BackendDrafter(Settings(planning_backend=f"{HERE}:instance", cli_working_dir=tmp_path))
    assert drafter.ask(Consult("Plan it"), lambda: False).error is None
    (tmp_path / ".git").rmdir()
    assert "is not a git repository" in (drafter.ask(Consult("Plan it"), lambda: False).error or "")


def test_it_works_at_the_goals_base_in_a_checkout_of_its_own(tmp_path: Path) -> None:
    shop = Repo(tmp_path / "shop")
    base = shop.git("rev-parse", "HEAD")
    (shop.path / "later.py").write_text("x = 1\n")
    shop.git("add", "later.py")
    shop.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "--quiet", "-m", "Later")
    drafter = BackendDrafter(Settings(planning_backend=f"{HERE}:Looking", cli_working_dir=shop.path))

    now = drafter.ask(Consult("Plan it"), lambda: False).output or ""
    before = drafter.ask(Consult("Plan it", base=base), lambda: False).output or ""

    assert ("calc.py" in now.split(), "later.py" in now.split()) == (True, True)
    assert ("calc.py" in before.split(), "later.py" in before.split()) == (True, False)
