"""PLANNER_TOOLS_FILE and docs/tools.md: the example loads, every mistake has a sentence, the tables are the data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schemas.goal import Goal
from tasks.base.errors import UnknownCommand
from tasks.handlers.goals import plan
from tasks.rules.strategy import Draft, Rejected
from tasks.toolchain.catalogue import CATALOGUE
from tasks.toolchain.contract import KINDS, Contract, Part, ToolCategory
from tests.support.documented import OTHER_LANGUAGES_EXAMPLE, TOOLS_EXAMPLE
from tests.support.smuggling import SMUGGLED_WORDS, smuggled_lines
from worker.process.container import Container
from worker.settings.settings import WrongSettings, load
from worker.settings.tools_file import WrongTools, catalogue, catalogue_with

DOCS = Path(__file__).parents[2] / "docs/tools.md"
TOOL = """
[tools.mine]
spellings = ["mine check"]
example = "mine check"
category = "TEST"
timeout_s = 10
"""


def sentences(text: str) -> list[str]:
    with pytest.raises(WrongTools) as wrong:
        catalogue_with(text)
    return str(wrong.value).splitlines()


def test_the_documented_example_is_read() -> None:
    made = catalogue_with(TOOLS_EXAMPLE)

    assert list(made.contracts)[:3] == ["rspec", "bazel-test", "rubocop"]
    assert [tool.tool for tool in made.recipe("ruby-full", ["lib/a.rb"])] == ["rubocop", "rspec"]
    assert set(CATALOGUE.contracts) < set(made.contracts)
    assert "rspec" not in CATALOGUE.contracts


ADDED = [catalogue_with(TOOLS_EXAMPLE).contracts[name] for name in ("rspec", "bazel-test", "rubocop")]


@pytest.mark.parametrize("contract", ADDED, ids=lambda contract: contract.id)
def test_an_operators_contract_refuses_what_is_smuggled_in(contract: Contract) -> None:
    made = catalogue_with(TOOLS_EXAMPLE)

    for line in smuggled_lines(contract):
        with pytest.raises(UnknownCommand):
            made.match(line)
    for word in SMUGGLED_WORDS:
        with pytest.raises(UnknownCommand):
            made.match_argv((*contract.example.split(), word))


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("rake test", "lib/cart.rb"),
        ("ruby -Ilib -Itest test/test_cart.rb -n test_sum", "lib/cart.rb"),
        ("vendor/bin/phpunit", "src/Cart.php"),
        ("phpunit tests/CartTest.php --filter testSum", "src/Cart.php"),
        ("mvn -B -ntp test", "src/main/java/shop/Cart.java"),
        ("./mvnw -B -ntp test -Dtest=CartTest", "src/main/java/shop/Cart.java"),
    ],
)
def test_a_goal_of_another_language_is_planned_once_an_operator_has_added_its_tool(command: str, file: str) -> None:
    goal = Goal.model_validate({"goal": "Fix the sum", "allowed_files": [file]})
    named = goal.model_copy(update={"context": goal.context.model_copy(update={"test_command": command})})

    without, with_tool = plan(goal), plan(named, catalogue_with(OTHER_LANGUAGES_EXAMPLE))

    assert isinstance(without, Rejected)
    assert without.errors[0].code == "no_verification"
    assert "PLANNER_TOOLS_FILE" in without.errors[0].message
    assert isinstance(with_tool, Draft)
    assert {step.verify for step in with_tool.steps} - {""} == {command}


@pytest.mark.parametrize(
    ("command", "accepted"),
    [
        ("rspec --seed=12", True),
        ("rspec --seed=x", False),
        ("rspec --format=a.b", False),
        ("rspec -e login", True),
        ("rspec -e", False),
        ("rspec --failXfast", False),
        ("bazel test", False),
        ("bundle exec rubocop lib", False),
    ],
)
def test_options_are_literal_words_with_typed_places(command: str, accepted: bool) -> None:
    made = catalogue_with(TOOLS_EXAMPLE)

    if accepted:
        assert made.match(command)
    else:
        with pytest.raises(UnknownCommand):
            made.match(command)


def test_a_goal_may_use_what_an_operator_added_and_nothing_else() -> None:
    goal = Goal.model_validate(
        {"goal": "Fix it", "allowed_files": ["lib/a.rb"], "context": {"test_command": "bundle exec rspec"}}
    )

    assert isinstance(plan(goal), Rejected)
    answer = plan(goal, catalogue_with(TOOLS_EXAMPLE))
    assert isinstance(answer, Draft)
    assert answer.steps[-1].verify == "bundle exec rspec"


def test_a_contract_with_an_id_of_ours_takes_its_place() -> None:
    slow = TOOL.replace("mine]", "pytest]").replace("mine check", "pytest").replace("= 10", "= 900")

    made = catalogue_with(slow + 'positional = "test"\noptions = ["-q", "-x", "-v", "--tb=short"]')

    assert made.match("pytest").timeout_s == 900
    assert list(made.contracts) == list(CATALOGUE.contracts)
    assert made.match("pytest tests/test_a.py -x").tool == "pytest-focused"


NARROW = """
[tools.pip-check]
spellings = ["python -m pip check"]
example = "python -m pip check --disable-pip-version-check"
category = "VALIDATE"
timeout_s = 60
required = ["--disable-pip-version-check"]

[tools.mypy]
spellings = ["mypy"]
example = "mypy src"
category = "TYPE_CHECK"
timeout_s = 60
positional = "path"
"""


@pytest.mark.parametrize("files", [["requirements.txt"], ["src/a.py"]])
def test_a_check_that_an_operators_contract_refuses_is_left_out_of_the_plan(files: list[str]) -> None:
    context = {"language": "python", "manifests": {"pyproject.toml": "[tool.mypy]"}}
    goal = Goal.model_validate({"goal": "Bump the types of requests", "allowed_files": files, "context": context})

    made = plan(goal, catalogue_with(NARROW))

    assert isinstance(made, Draft), made
    assert not any("follow-imports" in step.verify or "pip check" in step.verify for step in made.steps)
    assert any("follow-imports" in step.verify or "pip check" in step.verify for step in plan(goal).steps)  # type: ignore[union-attr]


def test_a_contract_that_takes_fewer_files_than_a_step_may_have_is_a_mistake() -> None:
    narrow = NARROW + "most = 5\n"

    assert any(each.startswith("recipes.") and "mypy" in each for each in sentences(narrow))


def test_a_new_contract_is_tried_before_ours() -> None:
    assert catalogue_with(TOOL.replace("mine check", "cargo test")).match("cargo test").tool == "mine"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[tools", "It is no TOML: "),
        ("[tools.mine]", "tools.mine.spellings: Field required"),
        ("[colours]", "colours: Extra inputs are not permitted"),
        ("[tools.Mine]" + TOOL[13:], "tools.Mine.[key]: String should match pattern"),
        (TOOL + "shell = true", "tools.mine.shell: Extra inputs"),
        (TOOL.replace('"TEST"', '"DEPLOY"'), "tools.mine.category: "),
        (TOOL.replace("= 10", "= 0"), "tools.mine.timeout_s: "),
        (TOOL + 'positional = "anything"', "tools.mine.positional: is no kind of argument; there are"),
        (TOOL + 'options = ["--x=<any>"]', "tools.mine.options.0: is no kind of argument"),
        (TOOL + 'options = ["--x=.*"]', "tools.mine.options.0: String should match pattern"),
        (TOOL + 'options = ["x"]', "tools.mine.options.0: "),
        (TOOL + 'options = ["-"]', "tools.mine.options.0: "),
        (TOOL + 'required = ["-.*"]', "tools.mine.required.0: "),
        (TOOL + 'tails = ["; ls"]', "tools.mine.tails.0: "),
        (TOOL + 'valued = {"-n" = "any"}', "tools.mine.valued.-n: "),
        (TOOL + "pass_codes = [256]", "tools.mine.pass_codes.0: "),
        (TOOL + "pass_codes = [7]", "tools.mine: each of pass_codes must be one of ran_codes."),
        (TOOL + "least = 3\nmost = 2", "tools.mine: least is 3 and most is 2."),
        (TOOL + 'focus = "name"\nfocus_option = "-k"', "tools.mine: focus_option must be one of valued"),
        (TOOL + "end_of_options = true", "tools.mine: end_of_options needs a positional"),
        (TOOL + 'focus = "name"', "tools.mine: focus needs a positional or a focus_option"),
        (TOOL.replace('["mine check"]', "[]"), "tools.mine.spellings: "),
        (TOOL.replace('["mine check"]', '["mine; ls"]'), "tools.mine.spellings.0: "),
        (TOOL.replace('["mine check"]', '["-c"]'), "tools.mine.spellings.0: "),
        (TOOL.replace('example = "mine check"', 'example = "mine"'), "tools.mine.example: `mine` is not in"),
        (TOOL.replace('example = "mine check"', 'example = "mine check; ls"'), "tools.mine.example: `mine check; ls`"),
        (TOOL + TOOL.replace("mine]", "yours]"), "tools.yours.example: `mine check` is read by mine; put yours before"),
        ('[recipes]\nx = ["rm -rf /"]', "recipes.x: `rm -rf /` is not in the tool catalogue."),
        ('[recipes]\nx = [{command = "mypy", suffixes = ["py"]}]', "recipes.x.0"),
        (TOOL.replace("mine]", "go-vet]"), "recipes.go-full: `go vet ./...` is not in the tool catalogue."),
    ],
)  # fmt: skip
def test_a_mistake_has_its_sentence(text: str, sentence: str) -> None:
    assert any(told.startswith(sentence) for told in sentences(text)), sentences(text)


def test_every_mistake_is_told_at_once() -> None:
    assert len(sentences(TOOL.replace("= 10", "= 0") + 'positional = "x"\nshell = 1')) == 3


def test_a_wrong_file_stops_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(TOOL + "pass_codes = [7]\nleast = 60")
    monkeypatch.setenv("PLANNER_TOOLS_FILE", str(path))

    with pytest.raises(WrongSettings, match=r"^PLANNER_TOOLS_FILE: tools\.mine\.least: "):
        load()


def test_a_file_that_is_not_there_stops_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLANNER_TOOLS_FILE", str(tmp_path / "nothing"))

    with pytest.raises(WrongSettings, match=r"PLANNER_TOOLS_FILE: .* cannot be read"):
        load()


def test_a_right_file_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "tools.toml"
    path.write_text(TOOLS_EXAMPLE)
    monkeypatch.setenv("PLANNER_TOOLS_FILE", str(path))

    settings = load()
    path.write_text("[broken")

    assert "rspec" in catalogue(settings.tools_file).contracts
    assert Container(settings).plan_creation.catalogue is catalogue(settings.tools_file)
    assert catalogue(None) is CATALOGUE


# --- docs/tools.md ---


def tool_row(contract: Contract) -> str:
    codes = map(shown, (contract.pass_codes, contract.ran_codes))
    cells = (f"`{contract.id}`", f"`{contract.example}`", contract.category, str(contract.timeout_s), *codes)
    values = ", ".join(f"`{option}` {kind}" for option, kind in contract.valued)
    last = (positionals(contract), values, "yes" if contract.end_of_options else "")
    return f"| {' | '.join([*cells, ', '.join(contract.languages), contract.min_risk, *last])} |"


def shown(codes: tuple[int, ...]) -> str:
    return ", ".join(map(str, codes)) if len(codes) < 9 else f"{codes[0]} to {codes[-1]}"


def positionals(contract: Contract) -> str:
    most = contract.most if contract.positional else 0
    return f"{contract.least} to {most} {contract.positional}" if most else "none"


def recipe_row(name: str, parts: tuple[Part, ...]) -> str:
    return f"| `{name}` | {', '.join(f'`{part.command}`' + ' FILES' * bool(part.suffixes) for part in parts)} |"


def tables() -> list[list[str]]:
    return [
        [tool_row(contract) for contract in CATALOGUE.contracts.values()],
        [recipe_row(name, parts) for name, parts in CATALOGUE.recipes.items()],
    ]


def test_the_documented_tables_are_the_catalogue() -> None:
    rows = re.findall(r"^\| `.*\|$", DOCS.read_text().partition("## The catalogue")[2], re.M)

    assert rows == [row for table in tables() for row in table], "run: python -m tests.unit.test_tools_file"


def test_every_kind_and_category_is_documented() -> None:
    text = DOCS.read_text()

    assert all(f"`{kind}`" in text for kind in KINDS)
    assert all(category in TOOLS_EXAMPLE for category in ToolCategory)


if __name__ == "__main__":  # python -m tests.unit.test_tools_file writes the tables of docs/tools.md
    before, heading, after = DOCS.read_text().partition("## The catalogue")
    pieces = re.split(r"(?<=\|---\|\n)", re.sub(r"^\| `.*\|\n", "", after, flags=re.M))
    filled = ["".join(f"{row}\n" for row in table) for table in tables()]
    DOCS.write_text(before + heading + pieces[0] + filled[0] + pieces[1] + filled[1] + "".join(pieces[2:]))


@pytest.mark.parametrize("program", ["bash -c", "python -c", "node -e", "uv run", "npx -y", "docker run", "ssh", "awk"])
def test_an_operators_file_is_trusted_like_a_sudoers_file_and_says_so(program: str) -> None:
    text = TOOL.replace("mine check", f"{program} check").replace("mine]", "mine]\npositional = 'path'")
    text = text.replace(f'spellings = ["{program} check"]', f'spellings = ["{program}"]')

    made = catalogue_with(text)

    assert made.match(f"{program} check").tool == "mine"
    for word in ("-x", "../a", "a;b", "$(id)", "@file", "/etc/passwd", "A=b"):  # kinds of arguments hold all the same
        with pytest.raises(UnknownCommand):
            made.match(f"{program} {word}")
    page = DOCS.read_text()
    assert "trusted like a sudoers file" in page
    assert f"`{program}`" in page or program in ("node -e", "uv run")
    assert "is refused: say what it runs as well" not in page
