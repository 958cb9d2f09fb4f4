"""Chooses the checks of an iteration in addition to its tests, and runs each on the right files.

A check is a command of the catalogue without files. A goal or an operator names checks. Otherwise the goal's manifests
configure them; without a manifest, Python has two default checks.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from schemas.base import RiskLevel
from schemas.envelope import FieldError, field_error
from schemas.step import VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.strategies.drafting.folder_project import FolderProject
from tasks.strategies.drafting.project import Project
from tasks.strategies.gap_report.evidence import runs_tests
from tasks.text.fields import fit
from tasks.toolchain.catalogue import Catalogue
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.command_lines import words
from tasks.toolchain.contract import MANY, Contract, ToolCategory, fits, operand
from tasks.toolchain.files import chunks
from tasks.toolchain.language import LINTING, TYPING
from tasks.toolchain.languages import LANGUAGES

CHECKS = ("ruff-check", "pyright")  # contracts of the catalogue, for Python without a manifest

Command = tuple[str, ...]

# The names of a tool, and its command. The first row counts whose words are in a report's name of its tool.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "ruff format": "ruff format --check",
        "ruff": "ruff check",
        "flake8": "flake8",
        "black": "black --check",
        "mypy": "mypy --follow-imports=silent",  # findings in other files do not count
        "pyright": "pyright",
        "eslint": "npx eslint",
        "prettier": "npx prettier --check",
        "tsc": "npx tsc --noEmit",
        "vet": "go vet ./...",
        "golangci-lint": "golangci-lint run ./...",
        "gofmt": "gofmt -l",
        "clippy": "cargo clippy -- -D warnings",
    }
)

_ABOUT = {ToolCategory.LINT: LINTING, ToolCategory.TYPE_CHECK: TYPING}
_STARTERS = frozenset({"npx", "uv", "poetry", "run", "python", "python3", "-m"})
_OF_TWO = frozenset({"ruff", "cargo", "go", "node"})  # programs with subcommands


@dataclass(frozen=True, slots=True)
class Checks:
    """The names of an iteration's checks, in their order; `asked` are the checks that the goal names."""

    names: tuple[str, ...] = CHECKS
    asked: tuple[str, ...] = ()


def choose_checks(project: Project, named: Sequence[str] | None, operators: Sequence[str] | None) -> Checks:
    """Return the checks of an iteration.

    Checks that the goal has `named` replace the default checks; with a `+` in front they are added. The operator sets
    the default checks for Python (`operators`). Otherwise the goal's manifests configure them.
    """
    asked = tuple(dict.fromkeys(each.removeprefix("+").strip() for each in named or ()))
    adds = named is None or any(each.startswith("+") for each in named)
    return Checks(tuple(dict.fromkeys((*(_usual_checks(project, operators) if adds else ()), *asked))), asked)


def checks_named_in(text: str, usual: Checks, catalogue: Catalogue) -> Checks:
    """Return the checks that a `text` names or whose subject it names; else `usual`, unless the text is about tests."""
    spoken = frozenset(re.findall(r"[\w-]+", text.casefold()))
    named = [name for name in COMMANDS if spoken.issuperset(name.split())]
    for name in usual.names:
        contract = _contract_of(catalogue, command_of(catalogue, name) or ())
        about = _ABOUT.get(contract.category, r"(?!)") if contract else r"(?!)"
        named += [name] if any(re.fullmatch(about, word) for word in spoken) else []
    if not named and not runs_tests(text):
        return usual
    names = tuple(dict.fromkeys(named))
    return Checks(names, names)


def unknown_checks(named: Sequence[str] | None, catalogue: Catalogue) -> tuple[FieldError, ...]:
    """Return an error for each check of a goal that the catalogue does not have."""
    unknown = (
        (at, name) for at, name in enumerate(named or ()) if command_of(catalogue, name.removeprefix("+")) is None
    )
    return tuple(
        field_error(
            f"/gap_report/checks/{at}",
            "unknown_check",
            f"{fit(name, 80)!r} is no check of the tool catalogue: name a tool such as mypy, or its whole command.",
        )
        for at, name in unknown
    )


def command_of(catalogue: Catalogue, name: str) -> Command | None:
    """Return the command of a check, found by its name or by the whole command; None if there is no such check.

    A command that runs tests or changes files is no check.
    """
    word = name.casefold().strip()
    with suppress(UnknownCommand):
        known = words(COMMANDS.get(word, name))
        return known if _contract_of(catalogue, known) else _of_contract(catalogue, {word})
    return None


def command_of_tool(catalogue: Catalogue, tool: str) -> Command | None:
    """Return the command of the tool that a report names in its own words, such as `Ruff 0.15`."""
    parts = frozenset(re.findall(r"[\w-]+", tool.casefold()))
    known = (words(line) for name, line in COMMANDS.items() if parts.issuperset(name.split()))
    ours = next((command for command in known if _contract_of(catalogue, command)), None)
    return ours or _of_contract(catalogue, parts)


def category_of_tool(catalogue: Catalogue, tool: str) -> ToolCategory | None:
    """Return the category of a report's tool; None if the catalogue has no tool of that name."""
    command = command_of_tool(catalogue, tool)
    contract = _contract_of(catalogue, command) if command else None
    return contract.category if contract else None


def is_run_by(tool: str, argv: Sequence[str], catalogue: Catalogue, named: str) -> bool:
    """Return whether a command runs the tool that a criterion or report has `named`; `tool` is its contract.

    It does if the catalogue knows the name by this contract. If the catalogue does not know the name, the command has
    to begin with it.
    """
    name = " ".join(named.casefold().split())
    if known := _contract_named(catalogue, name):
        return known == tool
    line = f"{' '.join(argv)} ".casefold()
    return bool(name) and (title_of(tuple(argv)) == name or line.startswith(f"{name} "))


@lru_cache(maxsize=256)  # the criteria of a plan name the same few tools in each step
def _contract_named(catalogue: Catalogue, name: str) -> str | None:
    command = command_of_tool(catalogue, name)
    contract = _contract_of(catalogue, command) if command else None
    return contract.id if contract else None


def _of_contract(catalogue: Catalogue, names: Collection[str]) -> Command | None:
    for contract in catalogue.contracts.values():
        called = {contract.id.casefold(), *(title_of(tuple(each.split())) for each in contract.spellings)}
        command = (*contract.spellings[0].split(), *contract.required)
        if not called.isdisjoint(names) and _contract_of(catalogue, command):
            return command
    return None


def title_of(command: Command) -> str:
    """Return the name of a command for people: its program, with the subcommand if the program has several."""
    named = [word for word in command if word not in _STARTERS]
    return " ".join(named[: 2 if named and named[0] in _OF_TWO else 1]).casefold()


def aim(project: FolderProject, command: Command, files: Sequence[str], *, whole: bool) -> tuple[VerifyTool, ...]:
    """Return the commands that run a check on the files among `files` that it can check.

    If a check cannot run on single files, it runs only if `files` are the `whole` change. So files outside of a part
    never judge the part.
    """
    catalogue = project.catalogue
    contract = _contract_of(catalogue, command)
    if contract is None:
        return ()
    if isinstance(project, Project) and project.members:
        split = project.split(tuple(files))
        aimed = (
            member.place(aim(member.project, command, some, whole=whole))
            for member, some in split
            if _serves(contract, member.project)
        )
        return tuple(tool for tools in aimed for tool in tools)
    reading = contract.read(command)
    if contract.positional != "path" or (reading and reading.positionals):
        return (catalogue.aim(command),) if whole and reading else ()
    fitting = tuple(path for path in files if _is_for(contract, project, path) and fits("path", operand(path)))
    return tuple(catalogue.aim(command, part) for part in chunks(fitting, MANY))


def aim_at_all(project: FolderProject, command: Command) -> tuple[VerifyTool, ...]:
    """Return the commands that run a check on everything; empty if it is not for the project's language."""
    contract = _contract_of(project.catalogue, command)
    if isinstance(project, Project) and project.members:
        aimed = (member.place(aim_at_all(member.project, command)) for member in project.members)
        return tuple(tool for tools in aimed for tool in tools)
    if contract and not _serves(contract, project):
        return ()
    for place in ((".",), ()):
        with suppress(UnknownCommand):
            return (project.catalogue.aim(command, place),)
    return ()


def is_wanted(tool: VerifyTool, text: str, catalogue: Catalogue) -> bool:
    """Return whether a `text` names a check or the subject of the check, such as types."""
    about = _ABOUT.get(catalogue.contracts[tool.tool].category, r"(?!)")
    named = re.findall(r"[\w-]+", text.casefold())
    return any(re.fullmatch(about, word) or word == title_of(tool.argv) for word in named)


def _usual_checks(project: FolderProject, operators: Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(project, Project) and project.members:
        return tuple(
            dict.fromkeys(name for member in project.members for name in _usual_checks(member.project, operators))
        )
    language, manifests = project.language, project.goal.context.manifests
    if language is None:
        return ()
    if language.name == "python" and (operators is not None or not manifests):
        return CHECKS if operators is None else tuple(operators)
    configured = (
        next((each.part.command for each in choice if each.is_configured(manifests)), "")
        for choice in language.quick_checks
    )
    return tuple(filter(None, configured))


def _serves(contract: Contract, project: FolderProject) -> bool:
    """Return whether a tool is for the language of a project, or for all languages."""
    return not contract.languages or (project.language is not None and project.language.name in contract.languages)


def _is_for(contract: Contract, project: FolderProject, path: str) -> bool:
    named: Iterable[str] = contract.languages or ([project.language.name] if project.language else ())
    suffixes = tuple(suffix for name in named if name in LANGUAGES for suffix in LANGUAGES[name].suffixes)
    return path.endswith(suffixes) if suffixes else True


def _contract_of(catalogue: Catalogue, command: Command) -> Contract | None:
    """Return the contract of a check's command; None if it is unknown, runs tests, or may change files."""
    for files in ((), ("x",)):
        with suppress(UnknownCommand):
            contract = catalogue.contracts[catalogue.aim(command, files).tool]
            tests = contract.category is ToolCategory.TEST or contract.id == COLLECTS
            is_check = not tests and contract.min_risk is RiskLevel.LOW
            return contract if is_check else None
    return None
