"""Nothing that a command prints steers the operator's terminal, and there is no way to print past that."""

from __future__ import annotations

import ast
import io
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from schemas.envelope import FieldError, Problem
from worker.cli import console
from worker.host.printable import escape_json, make_harmless
from worker.host.terminal import JsonOutput, Terminal, content
from worker.telemetry.logs import JsonLines

WORKER = Path(__file__).parents[2] / "worker"
THE_ONE_PLACE = WORKER / "host" / "terminal.py"
SPEAKS_A_PROTOCOL = "agent.py"  # of a demo: its standard output is read by the controller
HOSTILE = "a\x1b]0;owned\x07b\x9b31mc\u202ed\x7fe\u200bf\rg\U000e0041"
ESCAPES = frozenset("\x1b\x07\x9b\u202e\x7f\u200b\r\x08\U000e0041")


def page_of(*parts: object) -> str:
    page = io.StringIO()
    Terminal(file=page, width=60).print(*parts, markup=False)
    return page.getvalue()


@pytest.mark.parametrize("show", [str, Text, Panel, lambda text: Panel(Text(text), title=Text(text))])
def test_nothing_in_what_is_drawn_steers_a_terminal(show: type) -> None:
    page = page_of(show(HOSTILE))

    assert ESCAPES.isdisjoint(page)
    assert "owned" in page


def test_a_file_is_printed_byte_for_byte_for_a_program_alone(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = f"+\tnew\r\n{HOSTILE}".encode() + b"\xff\n"
    content(data)
    assert capfdbinary.readouterr().out == data

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    content(data)
    assert (ESCAPES - {"\r"}).isdisjoint(capfdbinary.readouterr().out.decode())


def test_json_in_pieces_is_printed_byte_for_byte_for_a_program_alone(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps({"text": HOSTILE}, ensure_ascii=False).encode()
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stdout, "isatty", lambda seen=is_terminal: seen)
        out = JsonOutput()
        for at in range(0, len(data), 5):  # also within a character
            out.write(data[at : at + 5])
        out.flush()
        printed = capfdbinary.readouterr().out
        assert json.loads(printed) == {"text": HOSTILE}
        assert (printed == data) is not is_terminal
        assert not is_terminal or ESCAPES.isdisjoint(printed.decode())


def test_a_table_of_hostile_words_is_a_table() -> None:
    table = Table("name", "value")
    table.add_row(HOSTILE, Text(HOSTILE, "red"))

    assert ESCAPES.isdisjoint(page_of(table))


def test_our_own_styles_are_kept() -> None:
    page = io.StringIO()
    Terminal(file=page, force_terminal=True, color_system="standard").print(Text(f"x{HOSTILE}", "red"))

    assert page.getvalue().startswith("\x1b[31m")
    assert "\x1b]0;" not in page.getvalue()


def test_a_refused_messages_pointer_cannot_steer(capsys: pytest.CaptureFixture[str]) -> None:
    error = FieldError(pointer=f"/steps/{HOSTILE}", code=HOSTILE, message=HOSTILE)
    failure = console.Failure(Problem.of("invalid_message", HOSTILE, (error,)), 2)

    console.show_failure(failure, as_json=False)
    console.show_failure(failure, as_json=True)
    told = capsys.readouterr()

    assert ESCAPES.isdisjoint(told.err + told.out)
    assert json.loads(told.out)["errors"][0]["pointer"] == f"/steps/{HOSTILE}"


@given(st.text())
def test_escaped_json_says_the_same(text: str) -> None:
    document = json.dumps({"text": text}, ensure_ascii=False)

    assert escape_json(document).replace("\n", "").isprintable()
    assert json.loads(escape_json(document)) == {"text": text}


@given(st.text())
def test_harmless_text_keeps_its_length_and_what_can_be_seen(text: str) -> None:
    made = make_harmless(text)

    assert len(made) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, made, strict=True))
    assert made.replace("\n", "").isprintable()


def test_a_log_line_cannot_steer() -> None:
    record = logging.LogRecord("planner", logging.INFO, "", 0, HOSTILE, None, None)

    line = JsonLines().format(record)

    assert line.isprintable()
    assert json.loads(line)["event"] == HOSTILE


def test_a_command_line_tells_a_hostile_file_without_obeying_it(tmp_path: Path) -> None:
    goal = tmp_path / "goal.json"
    goal.write_text(json.dumps({"goal": "x", "context": {"files": {HOSTILE: 1}}, "limits": {HOSTILE: "x"}}))
    (tmp_path / "empty").mkdir()
    command = [sys.executable, "-c", "from worker.cli.commands.app import main; main()", "submit", "--input", str(goal)]

    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=WORKER.parent)

    assert ran.returncode != 0
    assert ESCAPES.isdisjoint(ran.stdout + ran.stderr)


def bypasses(source: str) -> list[str]:
    """List what a module prints without the one filter."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            if name in {"print", "Console"} or re.fullmatch(r"(typer|click)\.(echo|secho|confirm|prompt)", name):
                found.append(name)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"sys.stdout", "sys.stderr", "sys.__stdout__"}:
            found.append(ast.unparse(node))
    return found


HARMLESS_USES = {
    "worker/render/progress.py": ["sys.stderr"],  # whether it is a terminal
    "worker/cli/commands/worker.py": ["sys.stdout"],  # flushed before exec
    "worker/telemetry/logs.py": ["sys.stderr"],  # of the handler, whose formatter escapes
}


@pytest.mark.parametrize(
    "module",
    [path for path in sorted(WORKER.rglob("*.py")) if path != THE_ONE_PLACE and path.name != SPEAKS_A_PROTOCOL],
    ids=lambda path: path.relative_to(WORKER.parent).as_posix(),
)
def test_no_module_prints_past_the_one_filter(module: Path) -> None:
    name = module.relative_to(WORKER.parent).as_posix()

    assert sorted(set(bypasses(module.read_text()))) == HARMLESS_USES.get(name, [])


@pytest.mark.parametrize(
    "source",
    ["print('x')", "typer.echo(x)", "Console().print(x)", "import sys\nsys.stdout.write(x)", "typer.confirm(x)"],
)
def test_a_way_round_is_seen(source: str) -> None:
    assert bypasses(source)
