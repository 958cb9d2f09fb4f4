"""What is quick to verify on single files: their syntax, and the linters and type checkers that take files."""

from __future__ import annotations

from collections.abc import Sequence

from schemas.step import PlannedStep, VerifyTool
from tasks.base.errors import UnknownCommand
from tasks.policy.pre_steps import SYNTAX_CHECK, folders_of, tools_by_language
from tasks.text.folders import of_folder
from tasks.toolchain.catalogue import Catalogue, in_folder
from tasks.toolchain.contract import Contract, ToolCategory
from tasks.toolchain.languages import LANGUAGES

_BY_FILE = (ToolCategory.LINT, ToolCategory.TYPE_CHECK)  # what a tool finds in one file is about that file


def checks_of_files(step: PlannedStep, known: Sequence[VerifyTool], catalogue: Catalogue) -> tuple[VerifyTool, ...]:
    """Check the syntax of a step's files, and aim those of the `known` tools at them that take files."""
    like = step.model_copy(update={"verify_tools": tuple(known)})
    quick = tools_by_language(SYNTAX_CHECK.purpose, like, catalogue)
    folders = folders_of(known)
    by_file = (_on_files(tool, of_folder(step.allowed_files, tool.cwd, folders), catalogue) for tool in known)
    return tuple(dict.fromkeys(tool for tool in (*quick, *by_file) if tool))


def _on_files(tool: VerifyTool, files: Sequence[str], catalogue: Catalogue) -> VerifyTool | None:
    """Aim a linter or type checker at those of `files` that are of its language; None where it takes no files.

    The files are named as they are seen from the tool's folder.
    """
    contract: Contract = catalogue.contracts[tool.tool]
    reading = contract.read(tool.argv)
    suffixes = tuple(suffix for name in contract.languages for suffix in LANGUAGES[name].suffixes)
    fitting = tuple(path for path in files if path.endswith(suffixes)) if suffixes else ()
    if contract.category not in _BY_FILE or contract.positional != "path" or reading is None or not fitting:
        return None
    try:
        return in_folder(catalogue.aim((*reading.spelling, *reading.options), fitting), tool.cwd)
    except UnknownCommand:  # the name of a file is none that the tool takes
        return None
