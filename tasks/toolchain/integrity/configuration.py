"""Finds loosened configuration of tests and checks: thresholds, ignore lists, options, strictness.

TOML, INI and JSON files are read as values, each with the path of its keys. In all other files, such as YAML and
configuration in code, only the added lines are read.
"""

from __future__ import annotations

import configparser
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from tasks.toolchain.files import configures_verification, name_of
from tasks.toolchain.integrity.finding import Finding, TextChange

_NAMES = re.compile(
    r"pyproject\.toml|setup\.cfg|tox\.ini|\.?pytest\.(?:ini|toml)|\.coveragerc|\.?mypy\.ini|\.flake8|\.?ruff\.toml"
    r"|\.?pylintrc(?:\.toml)?|pyrightconfig\.json|noxfile\.py|package\.json|[jt]sconfig[\w.-]*\.json|\.eslintrc(?:\.\w+)?"
    r"|eslint\.config\.\w+|\.eslintignore|biome\.jsonc?|(?:jest|vitest|vite|karma)\.config\.\w+|\.mocharc\.\w+|\.c8rc(?:\.json)?"
    r"|\.nycrc(?:\.json)?|\.golangci\.(?:ya?ml|toml|json)|\.?clippy\.toml|Cargo\.toml|\.clang-tidy|CMakeLists\.txt|Makefile"
    r"|codecov\.ya?ml|\.codecov\.ya?ml|\.taprc"
)
_MOST = re.compile(
    r"max[-_]?(?:line[-_]?length|complexity|args|branches|returns|statements|warnings)|line-length|cognitive|threshold-max",
    re.I,
)
_LEAST = re.compile(
    r"fail[-_]under|coverageThreshold|thresholds?\b|min[-_]?\w*coverage|check-coverage|\b(?:lines|branches|functions|statements)$",
    re.I,
)
_IGNORING = re.compile(
    r"(?:^|[.\s])(?:(?:extend[-_]|per[-_]file[-_])*ignores?|disable|omit|exclude\w*|(?:extend-)?exclude|\w*IgnorePatterns|norecursedirs"
    r"|ignorePatterns|skips|unfixable|disable_error_code|exclude_(?:lines|also)|exclude-rules|modulePathIgnorePatterns)(?:$|[.\[])"
)
_TESTED = re.compile(
    r"(?:^|\.)(?:testpaths|python_files|python_functions|python_classes|testMatch|testRegex|spec|test\.include)$"
)
_SELECTING = re.compile(r"(?:^|\.)(?:extend-)?select$|(?:^|\.)enable$")
_OPTIONS = re.compile(r"(?:^|\.)(?:addopts|args|flags|extraArgs)$|(?:^|\.)scripts\.")
_DESELECTS = re.compile(
    r"(?:^|\s)(--ignore(?:-glob)?\b\S*|--deselect\b\S*|-k\b\s*\S*|-m\b\s*\S*|-p\s*no:\S+|--collect-only|--co|--no-cov\S*|--last-failed|--lf|--pass-?[wW]ith-?[nN]o-?[tT]ests|--exclude\b\S*|--skip\b\S*)"
)
_SWALLOWED = re.compile(
    r"\|\|\s*(?:true|:|exit 0)|;\s*(?:true|exit 0)\s*$|continue-on-error:\s*true|allow_failure:\s*true"
    r"|ignore_outcome\s*=\s*true|--exit-zero\b|passWithNoTests",
    re.I,
)
_STRICT_ON = re.compile(
    r"(?:^|\.)(?:strict\w*|disallow_\w+|check_untyped_defs|warn_\w+|no_implicit_\w+|xfail_strict|noImplicit\w+|noUnused\w+|noFallthrough\w*|exactOptional\w+|allErrors|checkJs|error_on_warnings)$"
)
_STRICT_OFF = re.compile(
    r"(?:^|\.)(?:ignore_errors|ignore_missing_imports|allow_\w+|implicit_optional|skipLibCheck|allowJs|allowUnreachableCode|suppress\w+)$"
)
_LEVELS = {
    "error": 3,
    "deny": 3,
    "forbid": 4,
    "warn": 2,
    "warning": 2,
    "information": 1,
    "hint": 1,
    "none": 0,
    "off": 0,
    "allow": 0,
}
_LEVELLED = re.compile(r"(?:^|\.)(?:rules|lints|report\w+)(?:\.|$)|(?:^|\.)report\w+$")
_LINES: tuple[tuple[str, re.Pattern[str]], ...] = (  # for files that are not read as values
    ("check_disabled", _SWALLOWED),
    (
        "tests_deselected",
        re.compile(
            r"passWithNoTests|testPathIgnorePatterns|\bexclude\s*:\s*\[[^\]]*(?:test|spec)|EXCLUDE_FROM_ALL|WILL_FAIL|DISABLED\s+TRUE|--deselect|--ignore=",
            re.I,
        ),
    ),
    (
        "strictness_loosened",
        re.compile(r"['\"]?[@\w/-]+['\"]?\s*:\s*(?:\[\s*)?(?:['\"]off['\"]|0\b)|strict\w*\s*:\s*false|NOLINT|-Wno-\w+"),
    ),
)


class _Value(NamedTuple):
    key: str
    value: Any


def is_configuration(path: str) -> bool:
    """Return whether a file may configure tests or checks."""
    return _NAMES.fullmatch(name_of(path)) is not None or configures_verification(path)


def find_loosened(changes: Sequence[TextChange]) -> Iterator[Finding]:
    """Yield the loosened values in the files of a change that configure tests or checks."""
    for each in changes:
        if not is_configuration(each.path) or each.before is None or each.after is None or each.path.endswith(".py"):
            continue
        before, after = _values(each.path, each.before or ""), _values(each.path, each.after)
        if before is None or after is None:
            yield from _in_lines(each)
            continue
        was = {value.key: value.value for value in before}
        for key, now in after:
            if now != was.get(key):
                for kind, what in _loosened(key, was.get(key), now):
                    yield Finding(kind, each.path, _line_of(each.after, key), f"{key}: {what}"[:200])
        gone = was.keys() - {value.key for value in after}
        for key in sorted(gone):
            if (_STRICT_ON.search(key) and was[key] is True) or (_LEAST.search(key) and _number(was[key])):
                yield Finding("strictness_loosened", each.path, 1, f"{key} is gone")


def _loosened(key: str, was: Any, now: Any) -> Iterator[tuple[str, str]]:
    """Yield the kind and a description of each loosening if the value of `key` changes from `was` to `now`."""
    for pattern, look in _ROWS:
        if pattern.search(key):
            yield from look(was, now)
            return


def _lowered(was: Any, now: Any) -> Iterator[tuple[str, str]]:
    old, new = _number(was), _number(now)
    if old is not None and new is not None and new < old:
        yield "threshold_loosened", _change(was, now)


def _raised(was: Any, now: Any) -> Iterator[tuple[str, str]]:
    yield from ((kind, _change(was, now)) for kind, _ in _lowered(now, was))


def _fewer(kind: str) -> Callable[[Any, Any], Iterator[tuple[str, str]]]:
    def look(was: Any, now: Any) -> Iterator[tuple[str, str]]:
        lost = _words(was) - _words(now)
        if lost and _words(now):
            yield kind, f"without {', '.join(sorted(lost))}"

    return look


def _ignored(was: Any, now: Any) -> Iterator[tuple[str, str]]:
    if more := _words(now) - _words(was):
        yield "ignored_more", f"also {', '.join(sorted(more))}"


def _turned(to: bool) -> Callable[[Any, Any], Iterator[tuple[str, str]]]:
    def look(was: Any, now: Any) -> Iterator[tuple[str, str]]:
        if now is to and was is not to:
            yield "strictness_loosened", _change(was, now)

    return look


def _less(was: Any, now: Any) -> Iterator[tuple[str, str]]:
    if _level(now) < (2 if was is None else _level(was)):
        yield "strictness_loosened", _change(was, now)


def _options(was: Any, now: Any) -> Iterator[tuple[str, str]]:
    before, after = _text(was), _text(now)
    known = Counter(_DESELECTS.findall(before))
    if more := Counter(_DESELECTS.findall(after)) - known:
        yield "tests_deselected", f"also {', '.join(each.strip() for each in more)}"
    if _SWALLOWED.search(after) and not _SWALLOWED.search(before):
        yield "check_disabled", after[-120:]
    least = [re.search(r"--cov-fail-under[= ](\d+)", text) for text in (before, after)]
    if least[0] and (least[1] is None or int(least[1][1]) < int(least[0][1])):
        yield "threshold_loosened", f"{least[0][0]} before"
    if lost := {"--strict", "--strict-markers", "--strict-config", "-W error", "-Werror"} & set(before.split()) - set(
        after.split()
    ):
        yield "strictness_loosened", f"without {', '.join(sorted(lost))}"


def _in_lines(each: TextChange) -> Iterator[Finding]:
    before = Counter(line.strip() for line in (each.before or "").splitlines())
    if each.before is None:
        return
    for number, line in enumerate((each.after or "").splitlines(), 1):
        plain = line.strip()
        if before[plain]:
            before[plain] -= 1
            continue
        for kind, pattern in _LINES:
            if pattern.search(plain) and not plain.startswith(("#", "//")):
                yield Finding(kind, each.path, number, plain[:160])
                break


def _values(path: str, text: str) -> list[_Value] | None:
    """Return the values of a TOML, INI or JSON file; None if it has another format or cannot be read."""
    for ending, read in _READERS.items():
        if name_of(path).endswith(ending):
            with suppress(ValueError, configparser.Error, RecursionError, KeyError):
                return [*_flatten(read(text))] if text else []
            return None
    return None


def _read_ini(text: str) -> dict[str, Any]:
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string(text)
    return {name: {key: _plain(value) for key, value in parser.items(name)} for name in parser.sections()}


def _read_json(text: str) -> Any:
    bare = re.sub(r"(\"(?:\\.|[^\"\\])*\")|//[^\n]*|/\*.*?\*/", lambda found: found[1] or "", text, flags=re.DOTALL)
    return json.loads(re.sub(r",(\s*[}\]])", r"\1", bare))


_READERS: Mapping[str, Callable[[str], Any]] = {
    "Cargo.toml": tomllib.loads,
    ".toml": tomllib.loads,
    ".json": _read_json,
    ".jsonc": _read_json,
    ".eslintrc": _read_json,
    ".nycrc": _read_json,
    ".c8rc": _read_json,
    ".cfg": _read_ini,
    ".ini": _read_ini,
    ".coveragerc": _read_ini,
    ".flake8": _read_ini,
    "pylintrc": _read_ini,
}


def _plain(value: str | None) -> Any:
    folded = (value or "").strip().casefold()
    return {"true": True, "yes": True, "false": False, "no": False}.get(folded, (value or "").strip())


def _flatten(value: Any, before: str = "") -> Iterator[_Value]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _flatten(inner, f"{before}.{name}" if before else str(name))
    elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        for number, inner in enumerate(value):
            named = inner.get("module", inner.get("name", number)) if isinstance(inner, Mapping) else number
            yield from _flatten(inner, f"{before}.{named}")
    else:
        yield _Value(before, value)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _words(value: Any) -> set[str]:
    parts = map(str, value) if isinstance(value, list) else re.split(r"[\s,]+", str(value or ""))
    return {each for each in parts if each and not each.startswith("#")}


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value or "")


def _level(value: Any) -> int:
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, int) and not isinstance(first, bool):
        return {0: 0, 1: 2}.get(first, 3)
    return _LEVELS.get(str(first).casefold(), 9)


def _change(was: Any, now: Any) -> str:
    return f"{str(was)[:60]} -> {str(now)[:60]}"


def _line_of(text: str, key: str) -> int:
    last = re.escape(key.rpartition(".")[2])
    found = re.search(rf"^.*\b{last}\b", text, re.MULTILINE)
    return text.count("\n", 0, found.start()) + 1 if found else 1


# The subject of a key, and the reader of its value; the first row whose pattern is in the key counts.
_ROWS: tuple[tuple[re.Pattern[str], Callable[[Any, Any], Iterator[tuple[str, str]]]], ...] = (
    (_OPTIONS, _options),
    (_LEAST, _lowered),
    (_MOST, _raised),
    (_TESTED, _fewer("tests_deselected")),
    (_SELECTING, _fewer("strictness_loosened")),
    (_IGNORING, _ignored),
    (_STRICT_ON, _turned(to=False)),
    (_STRICT_OFF, _turned(to=True)),
    (_LEVELLED, _less),
)
