"""Reads the findings in a SARIF 2.1.0 log, as ruff, eslint, clippy, CodeQL and others write it.

The log is untrusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from schemas.wording import expected
from tasks.base.errors import PlannerError

MAX_LOG_BYTES = 32 * 1024 * 1024
FAILING = frozenset({"error", "warning"})
UNLEVELLED = "warning"  # the default level of a result (SARIF 3.27.10)
BOM = b"\xef\xbb\xbf"


class UnreadableLog(PlannerError):
    """This is no SARIF log."""


@dataclass(frozen=True, slots=True)
class SarifFinding:
    """One finding of a tool; `path` is relative to the repository if that is known."""

    tool: str
    path: str
    line: int
    column: int
    rule: str
    text: str


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, alias_generator=to_camel)


class _Message(_Part):
    text: str | None = None
    id: str | None = None
    arguments: tuple[str, ...] = ()


class _Artifact(_Part):
    uri: str | None = None
    uri_base_id: str | None = None
    index: int = -1


class _Region(_Part):
    start_line: int = 1
    start_column: int = 1


class _Physical(_Part):
    artifact_location: _Artifact = _Artifact()
    region: _Region = _Region()


class _Location(_Part):
    physical_location: _Physical | None = None


class _Component(_Part):
    index: int = -1


class _RuleReference(_Part):
    id: str | None = None
    index: int = -1
    tool_component: _Component = _Component()


class _Suppression(_Part):
    status: str = "accepted"


class _Result(_Part):
    rule_id: str | None = None
    rule_index: int = -1
    rule: _RuleReference = _RuleReference()
    level: str | None = None
    kind: str = "fail"
    message: _Message = _Message()
    locations: tuple[_Location, ...] = ()
    suppressions: tuple[_Suppression, ...] | None = None
    baseline_state: str | None = None


class _Configuration(_Part):
    level: str = UNLEVELLED


class _Rule(_Part):
    id: str
    default_configuration: _Configuration = _Configuration()
    message_strings: Mapping[str, _Message] = {}


class _Extension(_Part):
    rules: tuple[_Rule, ...] = ()


class _Driver(_Extension):
    name: Annotated[str, Field(min_length=1)]


class _Tool(_Part):
    driver: _Driver
    extensions: tuple[_Extension, ...] = ()

    def rules_of(self, component: int) -> tuple[_Rule, ...]:
        """Return the rules of the extension with this index; the rules of the tool itself if there is none."""
        return (self.extensions[component] if 0 <= component < len(self.extensions) else self.driver).rules


class _ArtifactOfRun(_Part):
    location: _Artifact = _Artifact()


class _Run(_Part):
    tool: _Tool
    results: tuple[_Result, ...] | None = None
    artifacts: tuple[_ArtifactOfRun, ...] = ()
    original_uri_base_ids: Mapping[str, _Artifact] = {}


class _Log(_Part):
    version: str
    runs: tuple[_Run, ...]


def read(log: bytes, root: Path) -> tuple[SarifFinding, ...]:
    """Return the findings of a log's tools, with files below `root` relative to it. Raises UnreadableLog."""
    if len(log) > MAX_LOG_BYTES:
        raise UnreadableLog(f"The SARIF log has {len(log)} bytes, and the limit is {MAX_LOG_BYTES}.")
    try:
        read = _Log.model_validate_json(log.removeprefix(BOM))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = "/".join(map(str, first["loc"]))
        raise UnreadableLog(f"This is no SARIF log: {expected(first)}{f' (at {place})' if place else ''}.") from error
    if not read.version.startswith("2."):
        raise UnreadableLog(f"SARIF 2.1.0 can be read, not {read.version[:20]!r}.")
    return tuple(finding for run in read.runs for finding in _findings(run, root))


def _findings(run: _Run, root: Path) -> Iterator[SarifFinding]:
    for result in run.results or ():
        rule = _rule_of(run, result)
        level = result.level or (rule.default_configuration.level if rule else UNLEVELLED)
        accepted = result.suppressions and all(each.status == "accepted" for each in result.suppressions)
        is_gone = result.baseline_state == "absent"  # since the run before
        if result.kind != "fail" or level not in FAILING or accepted or is_gone:
            continue
        place = next((each.physical_location for each in result.locations if each.physical_location), _Physical())
        yield SarifFinding(
            tool=run.tool.driver.name,
            path=_path(run, place.artifact_location, root),
            line=place.region.start_line,
            column=place.region.start_column,
            rule=result.rule_id or result.rule.id or (rule.id if rule else ""),
            text=_text(result.message, rule),
        )


def _rule_of(run: _Run, result: _Result) -> _Rule | None:
    rules, name = run.tool.rules_of(result.rule.tool_component.index), result.rule_id or result.rule.id
    at = max(result.rule_index, result.rule.index)
    if 0 <= at < len(rules) and (name is None or name.startswith(rules[at].id)):
        return rules[at]
    everywhere = (rule for those in (rules, *(each.rules for each in run.tool.extensions)) for rule in those)
    return next((rule for rule in everywhere if rule.id == name), None)


def _text(message: _Message, rule: _Rule | None) -> str:
    text = message.text
    if text is None and rule and message.id:
        text = rule.message_strings.get(message.id, _Message()).text
    text = text or ""
    for number, argument in enumerate(message.arguments):
        text = text.replace(f"{{{number}}}", argument)
    return text


def _path(run: _Run, place: _Artifact, root: Path) -> str:
    if place.uri is None and 0 <= place.index < len(run.artifacts):
        place = run.artifacts[place.index].location
    path = _local(place.uri or "")
    base = run.original_uri_base_ids.get(place.uri_base_id or "")
    if base and base.uri and not path.startswith("/"):
        path = f"{_local(base.uri).rstrip('/')}/{path}"
    return relative(path, root)


def relative(path: str, root: Path) -> str:
    """Return a path relative to `root`, if it is below it."""
    whole, above = PurePosixPath(path), PurePosixPath(root.as_posix())
    return str(whole.relative_to(above)) if whole.is_relative_to(above) else path


def _local(uri: str) -> str:
    """Return the path of a URI, with its escapes decoded; a URI of another scheme than file is decoded as a whole."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # brackets in place of the host
        return unquote(uri.removeprefix("file://"))
    return unquote(parts.path) if parts.scheme in {"", "file"} else unquote(uri)
