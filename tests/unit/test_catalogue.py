"""The tool catalogue: every contract accepts its example and refuses what could be smuggled in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base import RiskLevel
from schemas.goal import ToolCall
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.command_lines import render, words
from tasks.toolchain.contract import KINDS, Contract, ToolCategory, fits
from tests.support.smuggling import SMUGGLED_WORDS, smuggled_lines

GOALS_TOOLS = """
    pytest pytest-focused ruff-check ruff-fix mypy pyright py-compile npm-test jest eslint tsc go-test go-vet cargo-test
    cargo-clippy cmake-build ctest
"""

GOALS_RECIPES = """
    python-quick python-full python-test-only python-focused-test node-quick node-full go-full rust-full
"""


def test_a_command_is_read_and_told_unchanged() -> None:
    tool = CATALOGUE.match("pytest tests/test_auth.py -v")

    assert tool == VerifyTool(
        tool="pytest", argv=("pytest", "tests/test_auth.py", "-v"), timeout_s=300, pass_codes=(0,)
    )
    assert render([tool]) == "pytest tests/test_auth.py -v"


def test_the_tools_and_recipes_that_goals_name_are_there() -> None:
    assert set(GOALS_TOOLS.split()) <= set(CATALOGUE.contracts)
    assert len(GOALS_TOOLS.split()) == 17
    assert set(GOALS_RECIPES.split()) <= set(CATALOGUE.recipes)
    assert len(GOALS_RECIPES.split()) == 8


@pytest.mark.parametrize("contract", CATALOGUE.contracts.values(), ids=lambda contract: contract.id)
def test_a_contract_accepts_its_own_example(contract: Contract) -> None:
    tool = CATALOGUE.match(contract.example)

    assert tool.tool == contract.id
    assert render([tool]) == contract.example
    assert set(contract.pass_codes) <= set(contract.ran_codes)


@pytest.mark.parametrize("contract", CATALOGUE.contracts.values(), ids=lambda contract: contract.id)
def test_a_contract_refuses_its_example_with_something_smuggled_in(contract: Contract) -> None:
    accepted = [line for line in smuggled_lines(contract) if matches(line)]

    assert accepted == []


@pytest.mark.parametrize("contract", CATALOGUE.contracts.values(), ids=lambda contract: contract.id)
def test_a_contract_refuses_a_smuggled_word_wherever_it_stands(contract: Contract) -> None:
    """A call by id brings an argv that no shell syntax was looked for in."""
    argv = words(contract.example)
    places = [(*argv[:at], word, *argv[at:]) for word in SMUGGLED_WORDS for at in range(len(argv) + 1)]

    assert [argv for argv in places if contract.read(argv)] == []


def matches(command: str) -> bool:
    """Whether the catalogue takes `command`, without a look for the nearest one."""
    try:
        return CATALOGUE.find(words(command)) is not None
    except UnknownCommand:
        return False


@pytest.mark.parametrize(
    ("command", "tool"),
    [
        ("python -m pytest", "pytest"),
        ("uv run pytest -q", "pytest"),
        ("pytest -q -x tests", "pytest-focused"),
        ("pytest -x", "pytest"),
        ("pytest tests/test_a.py::TestX::test_y[param]", "pytest"),
        ('pytest "tests/test_a.py::test_y[a b-*?]"', "pytest"),
        ("pytest --tb=short -rA --maxfail=3 -n auto", "pytest"),
        ("ruff check .", "ruff-check"),
        ("ruff format src --check", "ruff-format"),
        ("npm run lint", "npm-run-lint"),
        ("npm run test:unit", "npm-run-test"),
        ("yarn test", "yarn-test"),
        ("pnpm test", "pnpm-test"),
        ("make test", "make-test"),
        ("make build", "make-build"),
        ("npx vitest run", "vitest"),
        ("npx jest", "jest"),
        ("go test ./pkg/... -race -count=1", "go-test"),
        ("cargo clippy", "cargo-clippy"),
        ("cargo test -p core", "cargo-test"),
        ("ctest --output-on-failure --test-dir build", "ctest"),
        ("tox -e py311", "tox"),
        ("tox -e py311-django42", "tox"),
        ("pytest -q -- tests/test_a.py", "pytest"),
        ("pytest -q -x -- ./@odd/test_a.py", "pytest-focused"),
        ("go test ./pkg", "go-test"),
    ],
)
def test_a_command_is_read_as(command: str, tool: str) -> None:
    assert CATALOGUE.match(command).tool == tool


@pytest.mark.parametrize(
    "command",
    [
        "",
        "   ",
        "pytestevil",
        "python -c x",
        "python",
        "npm install evil",
        "npm run deploy",
        "make publish",
        "make clean",
        "pytest -p no:cacheprovider",
        "pytest --pyargs x",
        "pytest 'a",
        "cargo run",
        "cargo test -- --evil",
        "sh -c pytest",
        "pytest -- -x",
        "pytest -- @x",
        "tox -- x",
        "tox -e publish",
        "tox -e pypi-upload",
        "go test errors",
        "go vet cmd/gofmt",
        "go build fmt@v1",
        "go test std",
        "go test -exec ./x ./...",
        "go build -overlay=x ./...",
        "cargo +nightly test",
        "make test SHELL=/bin/true",
        "npx tsc --noEmit @args.txt",
        "python -m unittest @args",
        "npx --yes eslint src",
        "npx -p evil eslint src",
        "npx jest --config=x",
        "go test -exec x",
        "cmake -P x",
        "make -f x test",
        "pytest ..::x",
        "pytest tests/.. /x",
        "ruff format src",
        "ruff check --fix",
        "npm run build-and-publish",
        "pytest -n 999",
        "ruff check -e src",
        "ruff check --exit-zero src",
    ],
)
def test_a_command_is_refused(command: str) -> None:
    with pytest.raises(UnknownCommand):
        CATALOGUE.match(command)


def test_a_refusal_names_the_nearest_contract() -> None:
    with pytest.raises(UnknownCommand, match="nearest contract is cargo-check"):
        CATALOGUE.match("cargo chekc")
    with pytest.raises(UnknownCommand, match="nearest contract is pytest"):
        CATALOGUE.match("pytest x; ls")


def test_exit_codes_that_mean_passed_are_kept_apart_from_those_that_mean_ran() -> None:
    pytest_contract = CATALOGUE.contracts["pytest"]

    assert pytest_contract.pass_codes == (0,)
    assert pytest_contract.ran_codes == (0, 1)
    assert CATALOGUE.contracts["ruff-fix"].min_risk is RiskLevel.MED


def test_a_recipe_is_aimed_at_the_files_of_the_step() -> None:
    tools = CATALOGUE.expand("python-full", ("src/a.py", "README.md"))

    assert [tool.argv for tool in tools] == [
        ("python", "-m", "py_compile", "src/a.py"),
        ("ruff", "check", "--", "src/a.py"),
        ("mypy", "--", "src/a.py"),
        ("pytest", "-q"),
    ]
    assert render(tools).count(" && ") == 3


@pytest.mark.parametrize("name", CATALOGUE.recipes)
def test_every_recipe_is_made_of_catalogue_commands(name: str) -> None:
    files = ("a.py", "tests/test_a.py", "a.js", "a.ts", "main.go", "a.rs", "a.cpp")

    tools = CATALOGUE.recipe(name, files)

    assert tools
    assert all(CATALOGUE.match_argv(tool.argv) == tool for tool in tools)


def test_a_file_whose_name_no_contract_takes_is_left_out_of_a_recipe() -> None:
    assert CATALOGUE.expand("python-syntax", ("a;b.py", "-x.py", "$(id).py")) == ()


def test_a_call_names_a_contract_and_its_arguments() -> None:
    call = ToolCall(tool="pytest-focused", args=("tests/test_a.py",))

    assert CATALOGUE.expand((call, "ruff check src"))[0].argv == ("pytest", "tests/test_a.py", "-x")


def test_a_file_that_a_tool_would_read_arguments_from_is_verified_as_a_file() -> None:
    """Leaving such files out instead would let a step pass unverified."""
    tools = CATALOGUE.expand(("python-full", "node-syntax"), ("@odd/a.py", "+b.py", "@odd/c.js"))

    assert [tool.argv for tool in tools] == [
        ("python", "-m", "py_compile", "./@odd/a.py", "./+b.py"),
        ("ruff", "check", "--", "./@odd/a.py", "./+b.py"),
        ("mypy", "--", "./@odd/a.py", "./+b.py"),
        ("pytest", "-q"),
        ("node", "--check", "--", "./@odd/c.js"),
    ]
    assert all(CATALOGUE.match(render([tool])) == tool for tool in tools)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_takes_a_word_that_a_tool_reads_as_more_than_a_name(kind: str) -> None:
    assert [word for word in (*SMUGGLED_WORDS, "--") if fits(kind, word)] == []


def test_a_call_adds_what_a_contract_requires_before_the_end_of_options() -> None:
    call = ToolCall(tool="ruff-fix", args=("--", "src/a.py"))

    assert CATALOGUE.expand(call)[0].argv == ("ruff", "check", "--fix", "--", "src/a.py")


@pytest.mark.parametrize(
    "call",
    [ToolCall(tool="bash"), ToolCall(tool="pytest", args=("-c", "x")), ToolCall(tool="pytest", args=("a;b",))],
)
def test_a_call_outside_the_catalogue_is_refused(call: ToolCall) -> None:
    with pytest.raises(UnknownCommand):
        CATALOGUE.expand(call)


@pytest.mark.parametrize("verify", [None, "", ()])
def test_no_verification_is_no_tool(verify: str | tuple[str, ...] | None) -> None:
    assert CATALOGUE.expand(verify) == ()


def test_a_test_command_is_narrowed_to_well_formed_tests_only() -> None:
    hostile = (
        "@conf/args.py::x",
        "@tests/test_a.py",
        "+x.py",
        "-x.py",
        "x; rm -rf /",
        "--rootdir=/",
        "../x.py",
        "login works",
        "tests/test_a.py::t[`id`]",
    )

    narrowed = CATALOGUE.narrow(CATALOGUE.match("pytest tests -q"), (*hostile, "tests/test_a.py::test_x"))

    assert narrowed is not None
    assert narrowed.argv == ("pytest", "-q", "--", "tests/test_a.py::test_x")
    assert CATALOGUE.narrow(CATALOGUE.match("pytest"), hostile) is None


@pytest.mark.parametrize(
    ("command", "tests", "argv"),
    [
        ("go test ./...", ("TestLogin",), ("go", "test", "./...", "-run", "^TestLogin$")),
        ("go test ./...", ("TestA", "TestB"), ("go", "test", "./...", "-run", "^(TestA|TestB)$")),
        ("go test ./...", ("TestA|x", "TestB)"), None),
        ("cargo test", ("auth::login",), ("cargo", "test", "auth::login", "--", "--exact")),
        (
            "cargo test",
            ("shop-core tests::adds",),
            ("cargo", "test", "-p", "shop-core", "tests::adds", "--", "--exact"),
        ),
        (
            "cargo test --workspace",
            ("shop-core tests::adds",),
            ("cargo", "test", "--workspace", "tests::adds", "--", "--exact"),
        ),
        (
            "npx jest",
            ("app/[id]/page.test.tsx",),
            ("npx", "jest", "--runTestsByPath", "--", "app/[id]/page.test.tsx"),
        ),
        ("pnpm exec mocha", ("test/basket.js",), ("pnpm", "exec", "mocha", "--", "test/basket.js")),
        ("npx ava", ("test/basket.js",), ("npx", "ava", "test/basket.js")),
        ("npx jest", ("src/a.test.js",), ("npx", "jest", "--", "src/a.test.js")),
        (
            "npx jest",
            ("src/a.test.js > cart (new) > adds $two", "src/b.test.js::is open"),
            (
                *("npx", "jest", r"--testNamePattern=(?:^|\W)(?:cart\W+new\W+adds\W+two|is\W+open)(?:\W|$)"),
                *("--", "src/a.test.js", "src/b.test.js"),
            ),
        ),
        (
            "npx vitest run",
            ("src/a.test.ts > cart > adds",),
            ("npx", "vitest", "run", r"--testNamePattern=(?:^|\W)(?:cart\W+adds)(?:\W|$)", "src/a.test.ts"),
        ),
        (
            "yarn mocha --exit",
            ("test/a.js > cart > adds",),
            ("yarn", "mocha", "--exit", r"--grep=(?:^|\W)(?:cart\W+adds)(?:\W|$)", "--", "test/a.js"),
        ),
        (
            "node --test",
            ("test/a.test.js > cart > adds two",),
            ("node", "--test", r"--test-name-pattern=(?:^|\W)(?:adds\W+two)(?:\W|$)", "--", "test/a.test.js"),
        ),
        ("npx jest", ("src/a.test.js::adds", "src/b.test.js"), ("npx", "jest", "--", "src/a.test.js", "src/b.test.js")),
        ("npx ava", ("test/basket.js > adds",), ("npx", "ava", "test/basket.js")),
        ("npm test", ("src/a.test.js",), None),
        ("make test", ("tests/test_a.py",), None),
        ("pytest", tuple(f"tests/test_{i}.py" for i in range(21)), None),
    ],
)
def test_a_tool_is_narrowed_through_its_typed_place_only(
    command: str, tests: tuple[str, ...], argv: tuple[str, ...] | None
) -> None:
    narrowed = CATALOGUE.narrow(CATALOGUE.match(command), tests)

    assert (narrowed.argv if narrowed else None) == argv


@given(title=st.text(max_size=400), runner=st.sampled_from(["npx jest", "npx vitest run", "npx mocha", "node --test"]))
def test_a_title_gives_a_command_only_words(title: str, runner: str) -> None:
    narrowed = CATALOGUE.narrow(CATALOGUE.match(runner), [f"test/a.test.js > {title}"])

    assert narrowed is not None
    (pattern,) = [word.partition("=")[2] for word in narrowed.argv if "attern=" in word or "grep=" in word] or [""]
    assert set(re.sub(r"[A-Za-z0-9_]", "", pattern.replace(r"\W", ""))) <= set("(?:^|)+$")
    assert "".join(re.findall(r"[A-Za-z0-9_]", pattern.replace(r"\W", ""))) in re.sub(r"[^A-Za-z0-9_]", "", title)
    assert {word for word in narrowed.argv if word.startswith("-") and "=" not in word} <= {"--", "--test"}
    again = CATALOGUE.narrow(narrowed, ["test/b.test.js"])
    assert again is not None
    assert not [word for word in again.argv if "=" in word]


def test_other_patterns_of_titles_are_refused() -> None:
    for command in ("npx jest '--testNamePattern=nothing'", "npx mocha --grep=nothing", "npx jest -t nothing"):
        with pytest.raises(UnknownCommand):
            CATALOGUE.match(command)


def test_an_operator_adds_a_contract_without_changing_the_catalogue_that_was() -> None:
    bazel = Contract(
        id="bazel", spellings=("bazel test",), example="bazel test", category=ToolCategory.TEST, timeout_s=60
    )

    assert CATALOGUE.extend([bazel]).match("bazel test").tool == "bazel"
    with pytest.raises(UnknownCommand):
        CATALOGUE.match("bazel test")


def test_words_are_split_the_same_with_and_without_quotes() -> None:
    assert words("pytest  -q tests") == words("pytest '-q' \"tests\"") == ("pytest", "-q", "tests")


def test_every_positional_is_of_a_known_kind() -> None:
    contracts = CATALOGUE.contracts.values()
    named = {each.positional for each in contracts} | {each.focus for each in contracts}
    valued = {kind for each in contracts for _, kind in each.valued}

    assert (named | valued) - {""} <= set(KINDS)
