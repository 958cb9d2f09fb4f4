"""The tool catalogue: commands are selected from it, never invented.

A command line is parsed without a shell, and one contract must accept all of it. The result is an argv that a
controller also runs without a shell. The text `verify` for people is rendered from this argv, so both always agree.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

from pydantic import TypeAdapter

from schemas.goal import ToolCall, Verify
from schemas.step import ROOT, PlannedStep, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.text.folders import all_inner, inner, is_folder
from tasks.text.paths import clean
from tasks.toolchain.command_lines import quote, render, words
from tasks.toolchain.contract import FILE_OF_TEST, MANY, Contract, Part, Reading, fits, operand
from tasks.toolchain.files import Role, role_of
from tasks.toolchain.languages import RECIPES, TOOLS, suffixes_of

_NO_PACKAGE = re.compile(r"(?:^|/)(?:[._]|(?:testdata|vendor)/)")  # runners of packages skip these folders
_WORD = re.compile(r"[\w.-]+")
_IN_FOLDER = re.compile(r"(?P<open>\()?cd (?P<folder>'[^'\n]+'|[^\s'\"()&;|]+) && (?P<command>[^&]+)(?(open)\))")


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Contracts by id and recipes by name; an immutable value, which `extend` copies."""

    contracts: Mapping[str, Contract]
    recipes: Mapping[str, tuple[Part, ...]]

    @classmethod
    def of(cls, contracts: Iterable[Contract], recipes: Mapping[str, tuple[Part, ...]]) -> Catalogue:
        """Return the catalogue of these contracts, which are tried in this order."""
        return cls(MappingProxyType({each.id: each for each in contracts}), MappingProxyType(dict(recipes)))

    def extend(
        self, contracts: Iterable[Contract], recipes: Mapping[str, tuple[Part, ...]] = MappingProxyType({})
    ) -> Catalogue:
        """Return a catalogue with an operator's contracts and recipes added.

        A contract with the id of a built-in one replaces it in its place, so narrower contracts stay before it. New
        ones are tried first.
        """
        added = {each.id: each for each in contracts}
        kept = [added.pop(each.id, each) for each in self.contracts.values()]
        return Catalogue.of((*added.values(), *kept), {**self.recipes, **recipes})

    def match(self, command: str) -> VerifyTool:
        """Parse a command line, perhaps with a folder: `cd web && npm test`.

        Raises UnknownCommand if no contract accepts it; the error names the most similar known command.
        """
        if found := _IN_FOLDER.fullmatch(command.strip()):
            folder = clean("".join(words(found["folder"])))
            if not is_folder(folder):
                raise UnknownCommand(f"`{quote(command)}`: {quote(folder)!r} is no folder of the repository.")
            return self.match(found["command"]).model_copy(update={"cwd": folder})
        try:
            argv = words(command)
        except UnknownCommand as error:
            raise UnknownCommand(f"{error} {self._nearest(tuple(_WORD.findall(command[:200])), command)}") from error
        return self.match_argv(argv, command)

    def match_argv(self, argv: tuple[str, ...], shown: str = "") -> VerifyTool:
        """Return the verification of the contract that accepts all of `argv`.

        Raises UnknownCommand if there is none; the error names the most similar known command.
        """
        return _tool(self, argv) or self._read(argv, shown)[0].tool(argv)

    def call(self, tool: str, args: tuple[str, ...]) -> VerifyTool:
        """Return the verification of the contract with the id `tool`, with `args` and all required options.

        Raises UnknownCommand if there is no such contract, or if it does not accept `args`.
        """
        contract = self.contracts.get(tool)
        if contract is None:
            nearest = difflib.get_close_matches(tool, self.contracts, n=1, cutoff=0)[0]
            raise UnknownCommand(f"There is no tool {quote(tool)!r}; the nearest is {nearest}.")
        missing = tuple(each for each in contract.required if each not in args)
        end = args.index("--") if "--" in args else len(args)
        for spelling in contract.spellings:
            argv = (*spelling.split(), *args[:end], *missing, *args[end:])
            if contract.read(argv):
                return contract.tool(argv)
        raise UnknownCommand(f"The tool {tool} does not take these arguments; an example is `{contract.example}`.")

    def expand(self, verify: Verify | tuple[Verify, ...] | None, files: Sequence[str] = ()) -> tuple[VerifyTool, ...]:
        """Return the verifications of any form of `verify`.

        The form may be a command line, a recipe's name, a ToolCall, or several of these. Recipes are aimed at `files`.
        Raises UnknownCommand, which names the first form that the catalogue does not have.
        """
        if verify is None or verify == "":
            return ()
        if isinstance(verify, tuple):
            return tuple(tool for each in verify for tool in self.expand(each, files))
        if isinstance(verify, ToolCall):
            return (self.call(verify.tool, verify.args),)
        if verify in self.recipes:
            return self.recipe(verify, files)
        return (self.match(verify),)

    def recipe(self, name: str, files: Sequence[str] = ()) -> tuple[VerifyTool, ...]:
        """Return the verifications of a recipe, aimed at `files` if its parts take files."""
        return tuple(tool for part in self.recipes[name] for tool in self.run_part(part, files))

    def run_part(self, part: Part, files: Sequence[str] = ()) -> tuple[VerifyTool, ...]:
        """Return the verifications of one line of a recipe, aimed at the suitable ones of `files`.

        Without a suitable file, this is the other command of the line (`Part.otherwise`), or nothing.
        """
        return tuple(self._tools(part, files))

    def aimed(self, name: str, files: Sequence[str]) -> tuple[VerifyTool, ...]:
        """Return only those verifications of a recipe that take files, aimed at the suitable ones of `files`."""
        return tuple(tool for part in self.recipes[name] for tool in self.aim_part(part, files))

    def aim_part(self, part: Part, files: Sequence[str]) -> tuple[VerifyTool, ...]:
        """Aim one line of a recipe at the suitable ones of `files`; empty if no file is suitable."""
        return tuple(self._tools(replace(part, otherwise=""), files)) if part.suffixes else ()

    def aim_at_all(self, part: Part, files: Sequence[str]) -> tuple[VerifyTool, ...]:
        """Aim one line of a recipe at the suitable ones of `files`; at the whole project if over MANY are suitable."""
        if part.whole or sum(path.endswith(part.suffixes) for path in files) <= MANY:
            return self.aim_part(part, files)
        return (self.aim(words(part.command), (".",)),)

    def aim(self, command: tuple[str, ...], files: Sequence[str] = ()) -> VerifyTool:
        """Append the paths `files` to `command`, after `--` if the tool accepts this separator.

        Raises UnknownCommand if no contract accepts the command with these paths.
        """
        argv = (*command, *map(operand, files))
        contract, reading = self._read(argv)
        return contract.tool(contract.command(reading) if contract.end_of_options else argv)

    def separate(self, tool: VerifyTool) -> VerifyTool:
        """Put `--` before the paths of `tool` if the tool accepts this separator; `as_typed` removes it again."""
        contract, reading = self._read(tool.argv)
        return tool.model_copy(update={"argv": contract.command(reading)}) if contract.end_of_options else tool

    def as_typed(self, tools: Iterable[VerifyTool]) -> str:
        """Return the command lines of `tools` as a person would type them, without `--`."""
        readings = ((tool, self._read(tool.argv)[1]) for tool in tools)
        typed = (
            tool.model_copy(update={"argv": (*each.spelling, *each.options, *each.positionals, *each.tail)})
            for tool, each in readings
        )
        return render(tuple(typed))

    def narrow(self, tool: VerifyTool, tests: Iterable[str]) -> VerifyTool | None:
        """Aim `tool` at these tests alone, named from the root; None if the tool takes no such tests.

        Malformed names are left out, because names come from outside: a command may get a name only as a test. Tests in
        files outside of the tool's folder are left out, too.
        """
        contract, reading = self._read(tool.argv)
        seen = [each for test in tests if (each := _seen_from(test, tool.cwd, contract))]
        titles: tuple[str, ...] = ()
        if contract.focus == FILE_OF_TEST:
            titles = tuple(each.partition("::")[2] for each in seen)
            seen = [each.partition("::")[0] for each in seen]
        named = tuple(dict.fromkeys(each for each in seen if contract.focus and fits(contract.focus, each)))
        argv = contract.narrow(reading, named, titles) or ()
        found = self.find(argv)
        return in_folder(found[0].tool(argv), tool.cwd) if found else None

    def with_option(self, tool: VerifyTool, option: str) -> VerifyTool:
        """Return `tool` with one more option; unchanged if it has the option, or if no contract accepts the result."""
        contract, reading = self._read(tool.argv)
        argv = contract.command(replace(reading, options=(*reading.options, option)))
        if option in reading.options or self.find(argv) is None:
            return tool
        return tool.model_copy(update={"argv": argv})

    def confine(self, tool: VerifyTool, files: Sequence[str]) -> VerifyTool | None:
        """Aim a tool that takes packages at the folders of `files` and all folders below them.

        None if the tool takes no packages. Also None if one of these files is in no package, or if no file is in the
        tool's language. The tool would then fail without anything to run.
        """
        contract, reading = self._read(tool.argv)
        suffixes, files = suffixes_of(contract.languages), all_inner(files, tool.cwd)
        folders = dict.fromkeys(path.rpartition("/")[0] for path in files if path.endswith(suffixes))
        if contract.positional != "package" or not folders or any(_NO_PACKAGE.search(f"{each}/") for each in folders):
            return None
        places = tuple(f"./{folder}/..." if folder else "./..." for folder in folders)
        found = self.find(contract.command(replace(reading, positionals=places)))
        return in_folder(found[0].tool(contract.command(found[1])), tool.cwd) if found else None

    def spelling(self, tool: VerifyTool) -> tuple[str, ...]:
        """Return the words that call the program of `tool`."""
        return self._read(tool.argv)[1].spelling

    def as_ran(self, tool: VerifyTool) -> VerifyTool:
        """Return `tool` with more pass codes, so that it passes if it ran, even if it reports findings."""
        codes = {*tool.pass_codes, *self.contracts[tool.tool].ran_codes}
        return tool.model_copy(update={"pass_codes": tuple(sorted(codes))})

    def focus(self, tool: VerifyTool, tests: Sequence[str]) -> VerifyTool | None:
        """Aim `tool` at the first of `tests` that the tool already runs; None if there is no such test.

        The names come from evidence. Malformed names, and tests that `tool` does not run now, are skipped. As a rule of
        safety, no name may have the form of an option or of `@file`.
        """
        contract = self.contracts.get(tool.tool)
        reading = contract.read(tool.argv) if contract else None
        if contract is None or reading is None:  # this catalogue does not have the tool
            return None
        places = () if contract.focus_option else [place.removeprefix("./") for place in reading.positionals]
        seen = (each for test in tests if (each := _seen_from(test.removeprefix("./"), tool.cwd, contract)))
        here = in_folder(tool, ROOT)
        for test in (each for name in seen for each in _within(name, places)):
            narrowed = self.narrow(here, (test,))
            if narrowed and contract.read(narrowed.argv) != reading:
                narrowed = in_folder(narrowed, tool.cwd)
                return narrowed.model_copy(update={"timeout_s": max(tool.timeout_s, narrowed.timeout_s)})
        return None

    def _read(self, argv: tuple[str, ...], shown: str = "") -> tuple[Contract, Reading]:
        if found := self.find(argv):
            return found
        shown = shown or shlex.join(argv)
        raise UnknownCommand(f"`{quote(shown)}` is not in the tool catalogue. {self._nearest(argv, shown)}")

    def find(self, argv: tuple[str, ...]) -> tuple[Contract, Reading] | None:
        """Return the contract that accepts all of `argv`, and its split of `argv`; None if there is no such one."""
        for contract in self._by_executable.get(argv[0], ()) if argv else ():
            if reading := contract.read(argv):
                return contract, reading
        return None

    def _tools(self, part: Part, files: Sequence[str]) -> list[VerifyTool]:
        command = words(part.command)
        if not part.suffixes:
            return [self.match_argv(command)]
        fitting = (path for path in files if path.endswith(part.suffixes) and fits("path", operand(path)))
        taken = tuple(path for path in fitting if not part.tests or role_of(path) is Role.TEST)[:MANY]
        if not taken:
            return [self.match_argv(words(part.otherwise))] if part.otherwise else []
        if part.whole:
            return [self.match_argv(command)]
        return [self.aim(command, (path,)) for path in taken] if part.each else [self.aim(command, taken)]

    def _nearest(self, argv: tuple[str, ...], shown: str) -> str:
        near = self._by_executable.get(argv[0], ()) if argv else ()
        examples = {each.example: each.id for each in near or self.contracts.values()}
        best = _closest(shown[:200], tuple(examples))
        return f"The nearest contract is {examples[best]}, for example `{best}`."

    @cached_property
    def _by_executable(self) -> Mapping[str, tuple[Contract, ...]]:
        """The contracts by their first word, so that a match compares only a few."""
        index: dict[str, list[Contract]] = {}
        for contract in self.contracts.values():
            for executable in dict.fromkeys(spelling.split()[0] for spelling in contract.spellings):
                index.setdefault(executable, []).append(contract)
        return {executable: tuple(contracts) for executable, contracts in index.items()}


@lru_cache(maxsize=1024)
def _closest(shown: str, examples: tuple[str, ...]) -> str:
    """Return the example that is most similar to `shown`."""
    return difflib.get_close_matches(shown, examples, n=1, cutoff=0)[0]


@lru_cache(maxsize=512)  # the steps of a plan run the same few commands, and each is read twice
def _tool(catalogue: Catalogue, argv: tuple[str, ...]) -> VerifyTool | None:
    found = catalogue.find(argv)
    return found[0].tool(argv) if found else None


def in_folder(tool: VerifyTool, folder: str) -> VerifyTool:
    """Return `tool` with the folder that it runs in; its paths must already be relative to this folder."""
    return tool if tool.cwd == folder else tool.model_copy(update={"cwd": folder})


def once(tools: Iterable[VerifyTool]) -> tuple[VerifyTool, ...]:
    """Remove repeated verifications: of tools with the same folder and command, only the last one is kept."""
    return tuple({tool.key: tool for tool in tools}.values())


def looks_at(tool: VerifyTool, path: str) -> bool:
    """Return whether the command of `tool` names `path`, which is a path from the repository's root."""
    seen = inner(path, tool.cwd)
    return seen is not None and operand(seen) in tool.argv


def _seen_from(test: str, folder: str, contract: Contract) -> str | None:
    """Return the name of a test relative to `folder`; None if the test's file is outside of it.

    A test without a file keeps its name. In the result `::` separates a file from the title of its test.
    """
    file = test.partition("::")[0].partition(" > ")[0]
    if not file.endswith(suffixes_of(contract.languages)):
        return test
    seen = inner(test, folder)
    return (
        seen.replace(" > ", "::", 1)
        if seen and contract.focus == FILE_OF_TEST and " > " in seen[: len(file) + 3]
        else seen
    )


def _within(test: str, places: Sequence[str]) -> Iterator[str]:
    """Yield a name of `test` for each of `places` that contains it; without places, the test itself.

    Places are the folders, files and tests that a command names. If a place is a longer path of the test's file, the
    yielded name has this longer path.
    """
    path, colons, name = test.partition("::")
    if not places:
        yield test
    for place in places:
        folder = place.removesuffix("...").rstrip("/")
        file, _, inner = place.partition("::")
        if folder in ("", ".") or path.startswith(folder + "/") or (path == file and name.startswith(inner)):
            yield test
        elif not inner and file.endswith("/" + path):
            yield file + colons + name


CATALOGUE = Catalogue.of(TOOLS, RECIPES)
_CONTRACTS = TypeAdapter(tuple[Contract, ...])


def keep_contracts(catalogue: Catalogue, steps: Iterable[PlannedStep] | None) -> tuple[dict[str, Any], ...]:
    """Return the operator's contracts that a plan depends on, encoded to be stored with the plan.

    All later decisions must read the plan's commands in the same way, and a replayed log must give the same plan. But
    workers may start with other tools files. Stored are the contracts that `steps` use. Stored are also all contracts
    that replace a built-in one, because these apply to inserted steps. If `steps` is None, the plan expands and may use
    any contract, so all are stored.
    """
    if catalogue is CATALOGUE:
        return ()
    wanted = {tool.tool for step in steps or () for tool in step.verify_tools} | CATALOGUE.contracts.keys()
    theirs = (each for each in catalogue.contracts.values() if CATALOGUE.contracts.get(each.id) != each)
    kept = tuple(each for each in theirs if steps is None or each.id in wanted)
    return tuple(_CONTRACTS.dump_python(kept, mode="json"))


def catalogue_of(contracts: Sequence[dict[str, Any]]) -> Catalogue:
    """Return the catalogue of a plan that stores these contracts."""
    return _extended(_CONTRACTS.validate_python(contracts)) if contracts else CATALOGUE


@lru_cache(maxsize=64)
def _extended(contracts: tuple[Contract, ...]) -> Catalogue:
    return CATALOGUE.extend(contracts)
