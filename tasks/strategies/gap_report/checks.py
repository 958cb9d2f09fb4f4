"""Which checks an iteration has beside its tests, and how each is aimed at files.

A check is a command of the catalogue without files. A goal or an operator names checks; otherwise the goal's manifests
say which a project uses, and where a goal brings none, Python has two that always hold.
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
from tasks.toolchain.catalogue import Catalogue, words
from tasks.toolchain.collecting import TOOL as COLLECTS
from tasks.toolchain.contract import MANY, Contract, ToolCategory, fits, operand
from tasks.toolchain.files import chunks
from tasks.toolchain.language import LINTING, TYPING
from tasks.toolchain.languages import LANGUAGES

CHECKS = ("ruff-check", "pyright")  # contracts of the catalogue, for Python where a goal brings no manifest

Command = tuple[str, ...]

# The words that a tool is known by, and how it is run. The first row counts whose words a report has for its tool.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "ruff format": "ruff format --check",
        "ruff": "ruff check",
        "flake8": "flake8",
        "black": "black --check",
        "mypy": "mypy --follow-imports=silent",  # what other files have wrong is theirs
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
_OF_TWO = frozenset({"ruff", "cargo", "go", "node"})  # programs whose next word says what they do


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of an iteration by name, in their order; some were asked for by the goal."""

    names: tuple[str, ...] = CHECKS
    asked: tuple[str, ...] = ()


def choose_checks(project: Project, named: Sequence[str] | None, operators: Sequence[str] | None) -> Checks:
    """Choose the checks of an iteration.

    Those that a goal has `named` stand in the place of the usual ones; with a `+` they are added to these. The usual
    ones are what `operators` have set for Python, else what the goal's manifests configure.
    """
    asked = tuple(dict.fromkeys(each.removeprefix("+").strip() for each in named or ()))
    adds = named is None or any(each.startswith("+") for each in named)
    return Checks(tuple(dict.fromkeys((*(_usual_checks(project, operators) if adds else ()), *asked))), asked)


def checks_named_in(text: str, usual: Checks, catalogue: Catalogue) -> Checks:
    """Choose the checks that a `text` names, or what they look for; the usual ones where it names none and no tests."""
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
    """Return which checks of a goal are none of the catalogue's."""
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
    """Find the command of a check that is named by one word or as a whole; None where there is none.

    What runs tests, or changes files, is no check.
    """
    word = name.casefold().strip()
    with suppress(UnknownCommand):
        known = words(COMMANDS.get(word, name))
        return known if _contract_of(catalogue, known) else _of_contract(catalogue, {word})
    return None


def command_of_tool(catalogue: Catalogue, tool: str) -> Command | None:
    """Find the command of the tool that a report names in words of its own, such as `Ruff 0.15`."""
    parts = frozenset(re.findall(r"[\w-]+", tool.casefold()))
    known = (words(line) for name, line in COMMANDS.items() if parts.issuperset(name.split()))
    ours = next((command for command in known if _contract_of(catalogue, command)), None)
    return ours or _of_contract(catalogue, parts)


def category_of_tool(catalogue: Catalogue, tool: str) -> ToolCategory | None:
    """Return what the tool of a report is for; None where the catalogue has none of that name."""
    command = command_of_tool(catalogue, tool)
    contract = _contract_of(catalogue, command) if command else None
    return contract.category if contract else None


def is_run_by(tool: str, argv: Sequence[str], catalogue: Catalogue, named: str) -> bool:
    """Return whether a command of the contract `tool` runs what a criterion or report has `named`.

    It is the contract that the name comes to; where that is none, the command begins with the name.
    """
    name = " ".join(named.casefold().split())
    if known := _contract_named(catalogue, name):
        return known == tool
    line = f"{' '.join(argv)} ".casefold()
    return bool(name) and (title_of(tuple(argv)) == name or line.startswith(f"{name} "))


@lru_cache(maxsize=256)  # the criteria of a plan name the same few tools, step by step
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
    """Name a command as people do, by its program, and by what that does where it does several things."""
    named = [word for word in command if word not in _STARTERS]
    return " ".join(named[: 2 if named and named[0] in _OF_TWO else 1]).casefold()


def aim(project: FolderProject, command: Command, files: Sequence[str], *, whole: bool) -> tuple[VerifyTool, ...]:
    """Aim a check at those of `files` that it is for.

    What does not look at files alone judges only a `whole` change: no piece of one is judged by files that it may not
    touch.
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
    """Aim a check at everything that is of its language."""
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
    """Return whether words of a `text` name a check, or are about what it looks for."""
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
    """Return whether a tool is of the language of a project, if it is of some."""
    return not contract.languages or (project.language is not None and project.language.name in contract.languages)


def _is_for(contract: Contract, project: FolderProject, path: str) -> bool:
    named: Iterable[str] = contract.languages or ([project.language.name] if project.language else ())
    suffixes = tuple(suffix for name in named if name in LANGUAGES for suffix in LANGUAGES[name].suffixes)
    return path.endswith(suffixes) if suffixes else True


def _contract_of(catalogue: Catalogue, command: Command) -> Contract | None:
    """Find the contract that takes a check's command, without files or with one."""
    for files in ((), ("x",)):
        with suppress(UnknownCommand):
            contract = catalogue.contracts[catalogue.aim(command, files).tool]
            tests = contract.category is ToolCategory.TEST or contract.id == COLLECTS
            is_check = not tests and contract.min_risk is RiskLevel.LOW
            return contract if is_check else None
    return None
