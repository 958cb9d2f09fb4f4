"""PLANNER_TOOLS_FILE: the operator's contracts and recipes for the tool catalogue (docs/tools.md).

It is read once, at the start; a wrong file stops the start with one sentence for each mistake. Goals only select tools,
operators define them. The file is trusted like a sudoers file: a contract of `bash -c` runs any command.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from schemas.base import RiskLevel
from schemas.wording import expected
from tasks.base.errors import PlannerError, UnknownCommand
from tasks.toolchain.catalogue import CATALOGUE, Catalogue
from tasks.toolchain.contract import KINDS, MANY, MANY_TEXTS, Contract, Part, ToolCategory
from worker.host.regular_files import read_setting

MAX_BYTES = 1024 * 1024

_PLACE = re.compile(r"<(\w+)>")  # where an option takes a value of a kind: `--jobs=<count>`


class WrongTools(PlannerError):
    """The tools file cannot be used."""


def _kind(name: str) -> str:
    if name not in KINDS:
        raise ValueError(f"is no kind of argument; there are {', '.join(KINDS)}")
    return name


def _option(word: str) -> str:
    for name in _PLACE.findall(word):
        _kind(name)
    return word


_FLAG = r"--?[A-Za-z0-9][A-Za-z0-9_-]*"
_VALUE = r"(?:[A-Za-z0-9_.,:/+-]|<\w+>)+"
Id = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Spelling = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_./][\w./+-]*(?: [\w./+-]+)*$")]
Kind = Annotated[str, AfterValidator(_kind)]
Option = Annotated[str, StringConstraints(pattern=f"^{_FLAG}(?:={_VALUE})?$"), AfterValidator(_option)]
Flag = Annotated[str, StringConstraints(pattern=f"^{_FLAG}$")]
Tail = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_=.,:/+-]+(?: [A-Za-z0-9_=.,:/+-]+)*$")]
ExitCode = Annotated[int, Field(ge=0, le=255)]
Suffix = Annotated[str, StringConstraints(pattern=r"^\.\w+$")]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolTable(_Table):
    """One `[tools.<id>]` table: the operator's contract for a tool."""

    spellings: tuple[Spelling, ...] = Field(min_length=1)
    example: str
    category: ToolCategory
    timeout_s: int = Field(ge=1, le=86_400)
    positional: Kind | None = None
    least: int = Field(default=0, ge=0, le=MANY)
    most: int = Field(default=MANY, ge=1, le=MANY)
    options: tuple[Option, ...] = ()
    valued: dict[Flag, Kind] = Field(default_factory=dict)
    required: tuple[Flag, ...] = ()
    tails: tuple[Tail, ...] = ()
    end_of_options: bool = False
    focus: Kind | None = None
    focus_option: Flag | None = None
    focus_most: int = Field(default=1, ge=1, le=MANY)
    pass_codes: tuple[ExitCode, ...] = Field(default=(0,), min_length=1)
    ran_codes: tuple[ExitCode, ...] = (0, 1)
    cannot_run: tuple[Annotated[str, StringConstraints(min_length=1, max_length=200)], ...] = Field(
        default=(), max_length=MANY_TEXTS
    )
    languages: tuple[str, ...] = ()
    min_risk: RiskLevel = RiskLevel.LOW

    def contract(self, name: str) -> Contract:
        """Return the contract `name`; an option is a literal text that may contain typed places."""
        fields = self.model_dump(exclude={"options", "valued", "positional", "focus", "focus_option"})
        return Contract(
            **fields,
            id=name,
            positional=self.positional or "",
            options=tuple(map(_pattern, self.options)),
            valued=tuple(self.valued.items()),
            focus=self.focus or "",
            focus_option=self.focus_option or "",
        )

    def mistakes(self) -> Iterator[str]:
        """Yield the contradictions between fields."""
        if self.least > self.most:
            yield f"least is {self.least} and most is {self.most}"
        if not set(self.pass_codes) <= set(self.ran_codes):
            yield "each of pass_codes must be one of ran_codes"
        if self.end_of_options and (self.tails or not self.positional):
            yield "end_of_options needs a positional to stand behind `--`, and leaves no place for tails"
        if self.focus_option and self.valued.get(self.focus_option) != self.focus:
            yield "focus_option must be one of valued, of the kind of focus"
        if self.focus and not self.focus_option and not self.positional:
            yield "focus needs a positional or a focus_option to stand in"


class PartTable(_Table):
    """A command of a recipe, for the step's files with these `suffixes`."""

    command: str
    suffixes: tuple[Suffix, ...] = ()
    otherwise: str = ""
    tests: bool = False
    each: bool = False


class ToolsFile(_Table):
    """The whole file."""

    tools: dict[Id, ToolTable] = Field(default_factory=dict)
    recipes: dict[Id, tuple[str | PartTable, ...]] = Field(default_factory=dict)


@lru_cache(maxsize=8)
def catalogue(path: Path | None) -> Catalogue:
    """Return our catalogue with the additions in the file at `path`.

    Raises WrongTools with one sentence for each mistake.
    """
    if path is None:
        return CATALOGUE
    try:
        text = read_setting(path, MAX_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongTools(f"{path} cannot be read: {error}.") from error
    return catalogue_with(text)


def catalogue_with(text: str) -> Catalogue:
    """Return our catalogue with the additions in `text`. Raises WrongTools with one sentence for each mistake."""
    try:
        file = ToolsFile.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise WrongTools(f"It is no TOML: {error}.") from error
    except ValidationError as error:
        mistakes = [f"{'.'.join(map(str, e['loc']))}: {expected(e)}, not {e['input']!r}." for e in error.errors()]
        raise WrongTools("\n".join(mistakes)) from error
    made = CATALOGUE.extend(
        (table.contract(name) for name, table in file.tools.items()),
        {
            name: tuple(Part(part) if isinstance(part, str) else Part(**part.model_dump()) for part in parts)
            for name, parts in file.recipes.items()
        },
    )
    wrong = [f"tools.{name}: {mistake}." for name, table in file.tools.items() for mistake in table.mistakes()]
    wrong += [*_unread(file, made), *_broken(made)]
    if wrong:
        raise WrongTools("\n".join(wrong))
    return made


def _unread(file: ToolsFile, made: Catalogue) -> Iterator[str]:
    """Yield a sentence for each contract that does not match its example, or whose example another one matches."""
    for name, table in file.tools.items():
        try:
            found = made.match(table.example).tool
        except UnknownCommand as error:
            yield f"tools.{name}.example: {error}"
            continue
        if found != name:
            yield f"tools.{name}.example: `{table.example}` is read by {found}; put {name} before it."


_STEMS = [f"{folder}a{number}" for folder in ("", "tests/test_") for number in range(MANY // 2)]


def _broken(made: Catalogue) -> Iterator[str]:
    """Yield a sentence for each recipe with a command that no contract matches, including the planner's own recipes."""
    for name, parts in made.recipes.items():
        files = [f"{stem}{suffix}" for part in parts for suffix in part.suffixes for stem in _STEMS]
        try:
            made.recipe(name, files)
            made.recipe(name)
        except UnknownCommand as error:
            yield f"recipes.{name}: {error}"


def _pattern(option: str) -> str:
    """Return the regular expression of a literal option with typed places."""
    pieces = _PLACE.split(option)  # literal, kind, literal, ...
    return "".join(f"(?:{KINDS[piece]})" if at % 2 else re.escape(piece) for at, piece in enumerate(pieces))
