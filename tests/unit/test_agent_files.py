"""Agents as data files: those that come along, and an operator's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from worker.agents.agent import MAX_WORD, Agent, Options, WrongAgent, command_agent, named_agent, names

CHECKS = ["pytest -q -- tests/test_a.py", "pytest 'a b'", "x),Bash(curl", "$(touch x)"]


def test_those_that_come_along_are_whole() -> None:
    assert names() == ["claude", "codex"]
    for name in names():
        agent = named_agent(name)
        assert agent.version[0] == agent.argv[0] == name


def test_claude_may_run_what_verifies_the_step_and_nothing_else() -> None:
    words = named_agent("claude").command(patches=True, confined=True, prompt="p", checks=CHECKS)

    assert [word for word in words if word.startswith("Bash(")] == ["Bash(pytest -q -- tests/test_a.py)"]
    assert "--json-schema" not in words


def test_claude_answers_a_question_without_tools_that_write() -> None:
    words = named_agent("claude").command(patches=False, confined=False, prompt="p", schema='{"type": "object"}')

    assert words[words.index("--tools") + 1] == "Read,Glob,Grep"
    assert words[-2:] == ["--json-schema", '{"type": "object"}']


@pytest.mark.parametrize(
    ("confined", "word"), [(True, "--dangerously-bypass-approvals-and-sandbox"), (False, "workspace-write")]
)
def test_codex_confines_itself_where_the_controller_does_not(confined: bool, word: str) -> None:
    assert named_agent("codex").command(patches=True, confined=confined, prompt="p")[-1] == word


def test_an_own_file_adds_to_another_one(tmp_path: Path) -> None:
    (tmp_path / "Small-1.0.toml").write_text(
        "extends = 'claude'\n[options]\nmore = ['--model', 'haiku']\n[environment]\nA = 'b'\n"
    )
    agent, base = named_agent("Small-1.0.toml", tmp_path), named_agent("claude")

    assert agent.name == "Small-1.0"
    assert "haiku" in agent.command(patches=True, confined=True, prompt="p")
    assert agent.environment == {**base.environment, "A": "b"}
    assert (agent.options.patch, agent.trouble, agent.reader) == (base.options.patch, base.trouble, "claude")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("argv = []", "argv"),
        ("argv = ['a']\nreader = 'tea'", "there is no reader tea"),
        ("argv = ['a']\n[trouble]\nmessages = ['(']", "no regular expression"),
        ("argv = ['a']\nprompts = 1", "prompts"),
        ("argv = ['a'", "is no TOML"),
        ("extends = 'nobody'", "which is none of claude, codex"),
    ],
)
def test_mistakes_in_an_own_file_are_told(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(text)

    with pytest.raises(WrongAgent, match=r"own\.toml") as refused:
        named_agent("own.toml", tmp_path)
    assert told in str(refused.value)


@pytest.mark.parametrize("name", ["nobody", "no-such.toml", "../claude", ""])
def test_an_agent_that_nobody_knows_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(WrongAgent):
        named_agent(name, tmp_path)


def test_an_agent_gets_its_variables_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "DEPLOY_TOKEN", "PLANNER_REDIS_URL", "LC_ALL"):
        monkeypatch.setenv(name, "x")
    claude, command = named_agent("claude").variables_of_run(), command_agent("x")

    assert {"PATH", "LC_ALL", "ANTHROPIC_API_KEY", "PYTHONDONTWRITEBYTECODE"} <= claude.keys()
    assert claude.keys().isdisjoint({"DEPLOY_TOKEN", "PLANNER_REDIS_URL"})
    assert command
    assert {"PATH", "LC_ALL"} <= command.variables_of_run().keys()
    assert command.variables_of_run().keys().isdisjoint({"ANTHROPIC_API_KEY", "DEPLOY_TOKEN", "PLANNER_REDIS_URL"})
    assert command.variables_of_run(["DEPLOY_TOKEN"])["DEPLOY_TOKEN"] == "x"


def test_a_prompt_that_is_too_long_for_a_word_is_refused_and_such_a_schema_left_out() -> None:
    agent = Agent(name="a", argv=("a", "{prompt}"), stdin="nothing")
    assert agent.command(patches=True, confined=True, prompt="{schema} x")[1] == "{schema} x"
    with pytest.raises(WrongAgent, match="too long"):
        agent.command(patches=True, confined=True, prompt="é" * MAX_WORD)

    words = named_agent("claude").command(patches=False, confined=True, prompt="", schema="x" * (MAX_WORD + 1))
    assert "--json-schema" not in words


def test_a_schema_goes_along_in_the_form_that_a_file_names() -> None:
    agent = Agent(name="a", argv=("a",), options=Options(question=("--strict", "{strict_schema}")))

    def words(**asked: str) -> list[str]:
        return agent.command(patches=False, confined=True, prompt="", **asked)

    assert words(schema="{strict_schema}", strict="{schema}") == ["a", "--strict", "{schema}"]
    assert words(schema="x" * (MAX_WORD + 1), strict="x") == ["a", "--strict", "x"]  # only what is a word counts
    assert words(schema="x", strict="x" * (MAX_WORD + 1)) == ["a"]
    assert words() == ["a"]


def test_a_command_stays_as_it_is() -> None:
    agent = command_agent("sh -c 'echo {check} {prompt} {schema}'")

    assert agent
    assert agent.command(patches=True, confined=True, prompt="p")[-1] == "echo {check} {prompt} {schema}"
    assert command_agent(" ") is None


def test_a_login_that_is_not_there_is_not_granted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not named_agent("codex").grants()

    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").touch()
    [grant] = named_agent("codex").grants()
    assert grant.writable
