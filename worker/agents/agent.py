"""An agent from its data file: how its program is run, the paths that it may reach, and how its output is read."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from schemas.wording import expected
from worker.agents.readers import COUNTERS, READERS, AgentError, Reader
from worker.host.regular_files import read
from worker.sandbox.paths import PathGrant, WrongPath, grants_of
from worker.sandbox.process import WRITES_NO_BYTECODE, basic_environment

FOLDER = Path(__file__).parent
MAX_BYTES = 256 * 1024
MAX_WORD = 128 * 1024 - 1  # bytes of one word of a command, which is Linux's limit
COMMAND = "command"  # the name of an agent that has no data file, only a command
PROMPT, SCHEMA, STRICT, CHECK = "{prompt}", "{schema}", "{strict_schema}", "{check}"
FORMS = re.compile(f"{re.escape(SCHEMA)}|{re.escape(STRICT)}")
# A command of the plan without special meaning in a rule of a program's permissions.
PLAIN = re.compile(r"[A-Za-z0-9][\w./:=@+ -]*")


class WrongAgent(ValueError):
    """The agent cannot be used. The message has a sentence for each mistake, without a full stop at the end."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return text


def _reader(name: str) -> str:
    if name not in READERS:
        raise ValueError(f"there is no reader {name}; there are {', '.join(READERS)}")
    return name


def _counter(name: str) -> str:
    if name and name not in COUNTERS:
        raise ValueError(f"there is no counter {name}; there are {', '.join(COUNTERS)}")
    return name


Words = tuple[str, ...]
Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_]\w*$")]
Pattern = Annotated[str, AfterValidator(_pattern)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ignored_types=(cached_property,))


class Options(_Table):
    """Words that are added to an agent's command, in this order; each group is added only in its case."""

    always: Words = ()
    more: Words = ()  # the same, of a file that extends another one
    patch: Words = ()  # a step that changes files
    read_only: Words = ()  # one that answers
    question: Words = ()  # one whose answer has a schema
    confined: Words = ()  # the sandbox of the controller holds
    unconfined: Words = ()  # there is none


class Trouble(_Table):
    """Errors that the provider of an agent's model, or our login there, causes. They are no failures of the step."""

    kinds: tuple[str, ...] = ()
    statuses: tuple[int, ...] = ()
    messages: tuple[Pattern, ...] = ()  # which the message of the error begins with

    def has(self, error: AgentError) -> bool:
        """Return whether `error` matches one of these kinds, statuses or patterns of messages."""
        if error.kind in self.kinds or error.status in self.statuses:
            return True
        return any(re.match(pattern, error.message) for pattern in self.messages)


class Agent(_Table):
    """One agent. A run gets our basic environment variables, and those that `variables` names.

    The agent reads the prompt or the spec on its standard input. If it reads nothing, a word of its command contains
    `{prompt}`.
    """

    name: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][\w.-]{0,63}$")]
    argv: Annotated[Words, Field(min_length=1)]
    options: Options = Options()
    stdin: Literal["prompt", "spec", "nothing"] = "prompt"
    reader: Annotated[str, AfterValidator(_reader)] = "text"
    counts: Annotated[str, AfterValidator(_counter)] = ""  # what counts its tool calls while it works; empty: nothing
    variables: tuple[Variable, ...] = ()
    environment: dict[Variable, str] = Field(default_factory=dict)
    paths: Words = ()  # what it may reach, such as its login, where that is there: PATH or PATH:rw
    version: Words = ()  # what tells its version: run at the start, so that a program that does not run is noticed
    trouble: Trouble = Trouble()
    prompt: str = Field(default_factory=lambda: (FOLDER / "prompt.txt").read_text())

    @property
    def read(self) -> Reader:
        """The function that reads the agent's output."""
        return READERS[self.reader]

    @property
    def login(self) -> frozenset[str]:
        """The variables for the agent only: verifications do not see them."""
        return frozenset(self.variables)

    def variables_of_run(self, more: Sequence[str] = ()) -> dict[str, str]:
        """Return the environment of a run: basic variables, the agent's own, and those that `more` names."""
        return basic_environment((*self.variables, *more)) | WRITES_NO_BYTECODE | self.environment

    def grants(self) -> tuple[PathGrant, ...]:
        """Return the paths beyond the system that a run may reach: `paths` that exist, and files of the command."""
        return (*self._paths(), *grants_of(self.argv))

    def _paths(self) -> Iterator[PathGrant]:
        for text in self.paths:
            try:
                yield PathGrant.parse(text)
            except WrongPath:
                continue

    def command(
        self,
        *,
        patches: bool,
        confined: bool,
        prompt: str,
        schema: str | None = None,
        strict: str | None = None,
        checks: Sequence[str] = (),
    ) -> list[str]:
        """Return the command of a run. Raises WrongAgent if a word is too long, as with a long prompt.

        Placeholders are replaced, except if the agent reads the spec. A word with `{check}` is repeated for each of
        `checks` that has no special characters. Without a schema, or if it is too long for a word, the words for a
        question are left out.
        """
        options = self.options
        forms = {SCHEMA: schema or "", STRICT: strict or ""}
        asked = [text for place, text in forms.items() if any(place in word for word in options.question)]
        question = options.question if schema and all(len(text.encode()) <= MAX_WORD for text in asked) else ()
        sandbox = options.confined if confined else options.unconfined
        mode = options.patch if patches else options.read_only
        whole = [*self.argv, *options.always, *options.more, *mode, *question, *sandbox]
        if self.stdin == "spec":
            return whole
        words: list[str] = []
        for word in whole:
            if CHECK in word:
                words += [word.replace(CHECK, check) for check in checks if PLAIN.fullmatch(check)]
            else:
                words.append(FORMS.sub(lambda found: forms[found[0]], word).replace(PROMPT, prompt))
        if any(len(word.encode()) > MAX_WORD for word in words):
            raise WrongAgent(f"{self.name}: its prompt is too long for a word of a command")
        return words


def command_agent(command: str) -> Agent | None:
    """Return the agent of a `command`, split as a shell would; None for an empty one. Raises WrongAgent."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise WrongAgent(f"{command!r} cannot be split into words: {error}") from error
    return Agent(name=COMMAND, argv=tuple(words), stdin="spec", reader="report") if words else None


def names() -> list[str]:
    """Return the names of the agents that come with the planner."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def is_named(text: str) -> bool:
    """Return whether `text` is an agent's name or its data file, and no command."""
    return text in names() or text.endswith(".toml")


def named_agent(text: str, folder: Path | None = None) -> Agent:
    """Return the agent with this name or data file. Raises WrongAgent. A relative path begins at `folder`."""
    if not is_named(text):
        raise WrongAgent(
            f"{text}: there is no such agent; there are {', '.join(names())}, or write the path of a .toml"
        )
    path = FOLDER / f"{text}.toml" if text in names() else (folder or Path.cwd()) / Path(text).expanduser()
    try:
        return Agent.model_validate({"name": path.stem, **_table(path)})
    except ValidationError as error:
        mistakes = (f"{text}: {'.'.join(map(str, e['loc']))}: {expected(e)}" for e in error.errors())
        raise WrongAgent("; ".join(mistakes)) from error


def _table(path: Path) -> dict[str, Any]:
    """Return the content of a data file, merged into the file that it `extends`.

    Tables are merged, and other values replaced. Raises WrongAgent.
    """
    try:
        table = tomllib.loads(read(path.resolve(), MAX_BYTES).decode())
    except (OSError, UnicodeDecodeError) as error:
        raise WrongAgent(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    except tomllib.TOMLDecodeError as error:
        raise WrongAgent(f"{path} is no TOML: {error}") from error
    base = table.pop("extends", None)
    if base is None:
        return table
    if base not in names():
        raise WrongAgent(f"{path}: extends {base!r}, which is none of {', '.join(names())}")
    return _merged(_table(FOLDER / f"{base}.toml"), table)


def _merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: {**base[name], **value} for name, value in more.items() if _are_tables(base.get(name), value)}
    return {**base, **more, **both}


def _are_tables(one: Any, other: Any) -> bool:
    return isinstance(one, dict) and isinstance(other, dict)
