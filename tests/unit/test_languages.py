"""A language is one module with all of its parts and one entry in the table, and nobody else names it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from schemas.goal import GoalContext
from tasks.toolchain import languages
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.classify import output_parser
from tasks.toolchain.command_lines import words
from tasks.toolchain.contract import Contract, Part, ToolCategory
from tasks.toolchain.language import Language, Toolchain
from tasks.toolchain.languages import LANGUAGES, TOOLCHAINS, language_of
from tests.support.imports import imports_of

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tasks" / "toolchain"
NAMED = {path.stem for path in FOLDER.glob("*.py") if "\nTOOLCHAIN = " in path.read_text()}
BY_NAME = {name: import_module(f"tasks.toolchain.{name}").TOOLCHAIN for name in sorted(NAMED)}
each_toolchain = pytest.mark.parametrize("toolchain", BY_NAME.values(), ids=BY_NAME)
each_language = pytest.mark.parametrize("language", LANGUAGES.values(), ids=LANGUAGES)


def recipes_of(toolchain: Toolchain) -> dict[str, tuple[Part, ...]]:
    return {**toolchain.recipes, **toolchain.checks}


def tools_of(toolchain: Toolchain) -> tuple[Contract, ...]:
    return (*toolchain.tools, *toolchain.scripts)


def commands(toolchain: Toolchain) -> Iterator[str]:
    """Yield what its recipes and the steps before another attempt run."""
    parts: list[Part] = [part for recipe in recipes_of(toolchain).values() for part in recipe]
    for language in toolchain.languages:
        parts += (*language.types, *language.fix, *language.dependencies)
    for part in parts:
        yield part.command + (" src/a" + part.suffixes[0] if part.suffixes else "")
        if part.otherwise:
            yield part.otherwise


def test_the_table_has_every_module_of_a_language_once() -> None:
    assert len(TOOLCHAINS) == len(NAMED) >= 5
    assert set(map(id, TOOLCHAINS)) == set(map(id, BY_NAME.values()))


def test_nobody_but_the_table_imports_the_module_of_a_language() -> None:
    found = {
        f"{path.relative_to(ROOT)} imports {name}"
        for ring in ("schemas", "tasks", "worker")
        for path in sorted((ROOT / ring).rglob("*.py"))
        for name in imports_of(path)
        if name.split(".")[:2] == ["tasks", "toolchain"] and name.split(".")[2] in NAMED
    }

    assert found == {f"tasks/toolchain/languages.py imports tasks.toolchain.{name}" for name in NAMED}


@each_toolchain
def test_a_toolchain_has_languages_tools_recipes_and_the_rules_of_its_output(toolchain: Toolchain) -> None:
    assert toolchain.languages
    assert toolchain.tools
    assert toolchain.checks
    assert toolchain.output
    assert toolchain.ranked
    assert any(tool.category is ToolCategory.TEST for tool in toolchain.tools)
    assert toolchain.signs.failing
    assert toolchain.signs.build or toolchain.signs.dependency


@each_toolchain
def test_what_a_toolchain_runs_is_among_its_own_tools(toolchain: Toolchain) -> None:
    own = Catalogue.of(tools_of(toolchain), recipes_of(toolchain))

    assert all(own.match_argv(words(command)).tool in own.contracts for command in commands(toolchain))


@each_toolchain
def test_tools_are_of_the_languages_of_their_toolchain(toolchain: Toolchain) -> None:
    names = {language.name for language in toolchain.languages}

    assert all(tool.languages and set(tool.languages) <= names for tool in tools_of(toolchain))
    assert {name for tool in toolchain.tools for name in tool.languages} == names


@each_toolchain
def test_output_is_read_by_the_rules_of_the_tool_that_printed_it(toolchain: Toolchain) -> None:
    known = {tool.id for tool in toolchain.tools} | {tool.id.partition("-")[0] for tool in toolchain.tools}
    rules = {rule for parser in toolchain.output.values() for rule in parser}

    assert set(toolchain.output) <= known
    assert {rule for parser in toolchain.ranked.values() for rule in parser} <= rules
    assert rules & set(output_parser(None))


@each_language
def test_a_language_can_be_told_recognised_and_checked(language: Language) -> None:
    assert language.aliases
    assert language.suffixes
    assert language.manifests
    assert language.dependencies
    (own,) = (each for each in TOOLCHAINS if language in each.languages)
    assert {language.quick, language.build, language.test} <= recipes_of(own).keys()
    assert language.types or language.fix


def test_no_two_languages_claim_the_same() -> None:
    claims = Counter(
        claim
        for language in LANGUAGES.values()
        for claim in (language.name, *language.aliases, *language.suffixes, *language.manifests)
    )
    tools = Counter(tool.id for tool in languages.TOOLS)
    recipes = Counter(name for each in TOOLCHAINS for name in (*each.recipes, *each.checks))
    parsers = Counter(name for each in TOOLCHAINS for name in each.output)

    assert [name for counted in (claims, tools, recipes, parsers) for name in counted if counted[name] > 1] == []


ANOTHER = """
from schemas.goal import GoalContext
from tasks.toolchain import cpp
from tasks.toolchain.contract import Contract, Part, ToolCategory
from tasks.toolchain.language import COMPILE, Language, LogSigns, OutputRule, Rank, Toolchain

test, check = Part("zig build test"), Part("zig ast-check", (".zig",))
said = (OutputRule(r"(?P<file>[^:]{1,99}\\.zig):(?P<line>\\d{1,7}):\\d{1,7}: error: ", COMPILE),)
cpp.TOOLCHAIN = Toolchain(  # in the place of another: the table itself is a file of the repository
    languages=(
        Language(
            name="zig", aliases=("ziglang",), suffixes=(".zig",), manifests=("build.zig.zon",),
            quick="zig-syntax", build="zig-test", test="zig-test", dependencies=(test,),
        ),
    ),
    tools=(
        Contract(
            id="zig-test", spellings=("zig build test",), example="zig build test", category=ToolCategory.TEST,
            timeout_s=300, languages=("zig",),
        ),
        Contract(
            id="zig-check", spellings=("zig ast-check",), example="zig ast-check a.zig", timeout_s=9,
            category=ToolCategory.VALIDATE, positional="path", least=1, languages=("zig",),
        ),
    ),
    checks={"zig-syntax": (check,), "zig-test": (test,)},
    output={"zig": said},
    ranked={Rank.CHECK: said},
    signs=LogSigns(dependency="unable to find zig package"),
    foreign_files="^zig-cache/",
    test_names=r"spec_.*\\.zig",
)

from tasks.policy import pre_steps
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.command_lines import render
from tasks.toolchain.classify import classify
from tasks.toolchain.classify import read_log
from tasks.toolchain.files import role_of
from tasks.toolchain.languages import language_of
from tests.support.plans import a_step

text = "src/a.zig:7:1: error: expected type"
step = a_step("a", files=["src/a.zig"])
print(language_of(GoalContext(), ["src/a.zig"]).name, language_of(GoalContext(language="ZigLang"), ()).name)
print(CATALOGUE.match("zig build test").tool, render(CATALOGUE.recipe("zig-syntax", ["src/a.zig"])))
print(classify(text).category, classify(text, tool="zig-test").line, classify("zig-cache/a.zig:7:1: error: ").files)
print(read_log("Unable to find zig package"), role_of("build.zig.zon"), role_of("src/spec_a.zig"))
print(pre_steps.make_pre_step(pre_steps.SYNTAX_CHECK, step, (), (), CATALOGUE).verify)
"""


def test_whoever_stands_in_the_table_is_served_everywhere() -> None:
    done = subprocess.run([sys.executable, "-c", ANOTHER], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "zig zig",
        "zig-test zig ast-check src/a.zig",
        "COMPILATION_ERROR 7 ()",
        "dependency manifest test",
        "zig ast-check src/a.zig",
    ]


@pytest.mark.parametrize(
    ("context", "files", "tested", "name"),
    [
        ({}, ["lib/cart.rb", "lib/tax.rb", "lib/tool.py"], (), None),
        ({"files": ["conf.py", "lib/cart.rb"], "manifests": {"Gemfile": ""}}, ["lib/cart.rb"], (), None),
        ({"files": ["conf.py", "a.rb", "b.rb"]}, [], (), None),
        ({"files": ["pyproject.toml"], "manifests": {"pyproject.toml": ""}}, ["templates/a.html"], (), "python"),
        ({"files": ["composer.json", "package.json", "pom.xml"]}, ["Dockerfile"], (), None),
        ({"files": ["Cargo.toml", "tools/a.py", "tools/b.py"]}, ["build.rs"], (), "rust"),
        ({"files": ["Cargo.toml", "tools/a.py", "tools/b.py"]}, ["README.md"], (), "rust"),
        ({"files": ["a.py"]}, ["a.py"], ("ruby",), None),  # an operator's tool
        ({"language": "ruby", "files": ["a.py"]}, ["a.py"], (), None),
    ],
)
def test_what_is_mostly_of_another_language_is_of_none_that_we_know(
    context: dict[str, object], files: list[str], tested: tuple[str, ...], name: str | None
) -> None:
    found = language_of(GoalContext.model_validate(context), files, tested)
    assert (found.name if found else None) == name
