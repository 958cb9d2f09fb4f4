"""The pages about the project itself: links lead somewhere, commands are there, the glossary's names are the code's."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices
from typer.main import get_command

from schemas.kinds.evolution import CommitPlanningContext
from tasks.toolchain.classify import ALIASES
from tasks.toolchain.languages import LANGUAGES
from worker.cli.commands.app import app
from worker.settings.settings import Settings, variables

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
SECTIONS = ["Context", "Decision", "Consequence"]


@cache
def sources() -> str:
    """All that the three rings are made of, and the page of the wire: names of events are put together."""
    files = (path for ring in ("schemas", "tasks", "worker") for path in (ROOT / ring).rglob("*"))
    texts = [path.read_text() for path in files if path.suffix in (".py", ".lua")]
    return "\n".join([*texts, (DOCS / "wire.md").read_text()])


def cells(page: Path, column: int) -> list[str]:
    """One column of every table of a page, without the headings."""
    rows = [line.split("|")[1:-1] for line in page.read_text().splitlines() if line.startswith("|")]
    return [row[column].strip() for row in rows if len(row) > column and not set(row[0].strip()) <= {"-"}]


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_within_the_repository_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)", prose)

    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_a_page_says_at_its_head_whom_it_is_for(page: Path) -> None:
    if page.name == "index.md":  # it leads everyone to the page of their task
        return
    assert page.read_text().split("\n", 3)[2].startswith("For ")


def test_the_index_leads_to_every_page() -> None:
    links = set(re.findall(r"\]\(([^)#\s]+)", (DOCS / "index.md").read_text()))

    assert [page.name for page in sorted(DOCS.glob("*.md")) if page.name not in links | {"index.md"}] == []


@pytest.mark.parametrize("record", DECISIONS, ids=lambda record: record.stem)
def test_a_decision_has_a_context_and_a_consequence_and_is_short(record: Path) -> None:
    lines = record.read_text().splitlines()

    assert lines[0].startswith(f"# {record.name[:4]} ")
    assert [line.removeprefix("## ") for line in lines if line.startswith("## ")] == SECTIONS
    assert 10 <= len(lines) <= 40


def test_every_decision_names_a_test_that_there_is() -> None:
    index = (DOCS / "decisions" / "README.md").read_text()
    shown = dict(re.findall(r"^\| \[(\d{4})\].* \| (`[^|]+`) \|$", index, re.MULTILINE))

    assert shown.keys() == {record.name[:4] for record in DECISIONS}
    assert [test for tests in shown.values() for test in quoted(tests) if not is_a_test(test)] == []


def is_a_test(name: str) -> bool:
    """Tell whether `unit/test_x.py::test_y` is a function of a file of tests, and `unit/test_x.py` such a file."""
    file, _, function = name.partition("::")
    path = ROOT / "tests" / file
    return path.is_file() and (not function or f"def {function}(" in path.read_text())


@pytest.mark.parametrize("column", [2, 3])
def test_what_the_seeds_ask_for_is_where_its_table_says(column: int) -> None:
    names = [name for cell in cells(DOCS / "seeds.md", column) for name in quoted(cell)]
    is_there = is_a_test if column == 3 else lambda name: (ROOT / name).is_file()

    assert len(names) > 100
    assert [name for name in names if not is_there(name)] == []


def test_every_row_of_the_seeds_has_an_answer_a_place_and_a_test() -> None:
    answers = cells(DOCS / "seeds.md", 1)

    assert [
        each for each in answers if each != "answer" and not each.startswith(("works", "answered", "not yet"))
    ] == []
    assert all(
        quoted(each) for column in (2, 3) for each in cells(DOCS / "seeds.md", column) if each not in ("where", "test")
    )


def test_the_index_names_every_decision_in_order() -> None:
    index = (DOCS / "decisions" / "README.md").read_text()

    assert re.findall(r"^\| \[\d{4}\]\((.*?)\) \|", index, re.MULTILINE) == [record.name for record in DECISIONS]
    assert [int(record.name[:4]) for record in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_the_glossarys_names_on_the_wire_are_those_of_the_code() -> None:
    names = [name for cell in cells(DOCS / "glossary.md", 2) for name in quoted(cell)]
    parts = [part.strip(":-. ") for name in names for part in re.split(r"<[^>]*>|\{p\}", name)]

    assert len(names) > 100
    assert sorted({part for part in parts if part and part not in sources()}) == []


def test_the_glossary_lists_every_other_name_that_is_read() -> None:
    page = (DOCS / "glossary.md").read_text().partition("## Other names that are read")[2].partition("\n## ")[0]
    rows = [quoted(line) for line in page.splitlines() if line.startswith("| ") and "`" in line]
    settings = {
        (first, name) for field in Settings.model_fields for first, *others in [variables(field)] for name in others
    }
    fields = {
        (str(first), str(name))
        for field in CommitPlanningContext.model_fields.values()
        if isinstance(field.validation_alias, AliasChoices)
        for first, *others in [field.validation_alias.choices]
        for name in others
    }
    languages = {(each.name, alias) for each in LANGUAGES.values() for alias in each.aliases}
    categories = {(category.value, name) for name, category in ALIASES.items()}

    told = {(ours, name) for ours, *names in rows for name in names}
    assert told == (settings | fields | languages | categories)


def words_after(commands: list[list[str]], word: str) -> set[str]:
    return {after for words in commands for before, after in pairwise(words) if before == word}


def test_the_commands_of_the_contributors_page_are_there() -> None:
    told = [shlex.split(command) for cell in cells(DOCS / "contributing.md", 1) for command in quoted(cell)]
    commands = {each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands}
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    files = {word for words in told for word in words if word.startswith("tests/")}

    assert words_after(told, "planner") <= commands
    asked = words_after([words for words in told if "pytest" in words], "-m")
    named = {word for expression in asked for word in expression.split()} - {"and", "not"}
    assert named <= {each.split(":")[0] for each in markers}
    assert [
        name for name in words_after([words for words in told if "python" in words], "-m") if not find_spec(name)
    ] == []
    assert [name for name in files if not (ROOT / name).exists()] == []


def test_the_architecture_names_files_that_are_there() -> None:
    pages = "\n".join((DOCS / name).read_text() for name in ("architecture.md", "where-to-add.md"))
    page = re.sub(r"```.*?```", "", pages, flags=re.DOTALL)
    named = {word for word in quoted(page) if re.fullmatch(r"[a-z_]+(/[a-z_]+)*(/|\.py|\.md|\.lua|\.yaml)", word)}
    roots = (ROOT, ROOT / "tasks", ROOT / "worker", ROOT / "tasks/strategies/campaign")

    assert len(named) > 30
    assert sorted(name for name in named if not any((root / name).exists() for root in roots)) == []


ELSEWHERE = re.compile(  # notes that were written before this repository, and their numbered sections
    r"\b(?:DESIGN|HOUSE|HTTP|PEERS|PERFORMANCE|STYLE|WIRE)\.md\b|\b[Ss]eed 00\d|\bspec/[a-z]+\.md|\bspec \d\.\d"
)


def test_nothing_cites_a_document_that_the_repository_does_not_have() -> None:
    folders = ("schemas", "tasks", "worker", "tests", "docs")
    files = [path for name in folders for path in (ROOT / name).rglob("*") if path.suffix in (".py", ".lua", ".md")]
    cited = {str(path.relative_to(ROOT)): ELSEWHERE.findall(path.read_text()) for path in files}

    assert len(files) > 500
    assert {name: words for name, words in cited.items() if words} == {}


def commands_below(command: Any, *path: str) -> Iterator[tuple[str, str]]:
    """Yield every command that `planner --help` leads to, with its help."""
    for name, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            yield from commands_below(each, *path, name)
    if not hasattr(command, "commands"):
        yield " ".join(path), command.help or ""


def test_the_help_of_every_command_has_an_example_of_itself() -> None:
    helps = dict(commands_below(get_command(app)))

    assert len(helps) > 50
    assert [name for name, text in helps.items() if not re.search(rf"\[b\].*planner {name}\b", text)] == []
