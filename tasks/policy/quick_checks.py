"""Quick verifications of single files: their syntax, and the linters and type checkers that take files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from schemas.goal import GoalContext
from schemas.step import PlannedStep, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.policy.pre_steps import SYNTAX_CHECK, folders_of, tools_by_language
from tasks.rules.permission import SYNTAX
from tasks.text.folders import folder_of_check, of_folder
from tasks.toolchain.catalogue import Catalogue, in_folder, once
from tasks.toolchain.contract import Contract, Part, ToolCategory
from tasks.toolchain.files import name_of
from tasks.toolchain.languages import LANGUAGES, language_of

_PARTS: Mapping[str, tuple[Part, ...]] = MappingProxyType(
    {check.name: (check.part,) for each in LANGUAGES.values() for choice in each.quick_checks for check in choice}
)
_BY_FILE = (ToolCategory.LINT, ToolCategory.TYPE_CHECK)  # findings of such a tool in one file are about that file


def checks_of_files(step: PlannedStep, known: Sequence[VerifyTool], catalogue: Catalogue) -> tuple[VerifyTool, ...]:
    """Return syntax checks of a step's files, and the `known` tools that can check single files, for these files."""
    like = step.model_copy(update={"verify_tools": tuple(known)})
    quick = tools_by_language(SYNTAX_CHECK.purpose, like, catalogue)
    folders = folders_of(known)
    by_file = (_on_files(tool, of_folder(step.allowed_files, tool.cwd, folders), catalogue) for tool in known)
    return tuple(dict.fromkeys(tool for tool in (*quick, *by_file) if tool))


def _on_files(tool: VerifyTool, files: Sequence[str], catalogue: Catalogue) -> VerifyTool | None:
    """Aim a linter or type checker at those of `files` that are of its language; None if it takes no files.

    The result names files relative to the tool's folder.
    """
    contract: Contract = catalogue.contracts[tool.tool]
    reading = contract.read(tool.argv)
    suffixes = tuple(suffix for name in contract.languages for suffix in LANGUAGES[name].suffixes)
    fitting = tuple(path for path in files if path.endswith(suffixes)) if suffixes else ()
    if contract.category not in _BY_FILE or contract.positional != "path" or reading is None or not fitting:
        return None
    try:
        aimed = catalogue.aim((*reading.spelling, *reading.options), fitting)
        return in_folder(aimed.model_copy(update={"strict": True}) if tool.strict else aimed, tool.cwd)
    except UnknownCommand:  # the name of a file is none that the tool takes
        return None


def checks_of_changed(
    wanted: Mapping[str, bool], files: Sequence[str], catalogue: Catalogue
) -> tuple[tuple[VerifyTool, ...], tuple[str, ...]]:
    """Return the tools that run the `wanted` checks on changed files, and the ids of tools that no goal requested.

    `wanted` maps each check, named by folder and name, to whether the goal requested it.
    """
    tools: list[VerifyTool] = []
    added: list[str] = []
    folders = {folder_of_check(name) for name in wanted}
    for place, is_asked in wanted.items():
        folder, name = folder_of_check(place), name_of(place)
        found = [in_folder(tool, folder) for tool in _aimed(name, of_folder(files, folder, folders), catalogue)]
        tools += found
        added += [] if is_asked or name == SYNTAX else [tool.tool for tool in found]
    return once(tools), tuple(dict.fromkeys(added))


def _aimed(name: str, files: Sequence[str], catalogue: Catalogue) -> Iterable[VerifyTool]:
    language = language_of(GoalContext(), files)
    try:
        if name != SYNTAX:
            return [tool for part in _PARTS.get(name, ()) for tool in catalogue.aim_part(part, files)]
        return catalogue.aimed(language.quick, files) if language else ()
    except UnknownCommand:  # the name of a file, or an operator's contract in the place of ours
        return ()
