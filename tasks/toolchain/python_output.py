"""Output of Python's tools: pytest, unittest, Python itself, mypy, pyright, ruff and pip."""

from __future__ import annotations

from tasks.toolchain.language import (
    ARROW,
    AT,
    AT_COL,
    COMPILE,
    FILE,
    FLAKY,
    IMPORT,
    LINT,
    REGRESSION,
    SYNTAX,
    TIMEOUT,
    TYPE,
    OutputParser,
    OutputRule,
)

_PY_FILE = r"(?P<file>[^\s:'\"()]{1,300}\.pyi?)"
_TEST = r"(?P<test>[^\s:]{1,300}\.py::(?:(?! - )[^\n]){1,300}?)"
_NO_IMPORT = r"(?P<code>ModuleNotFoundError|ImportError)"
_DOTTED = r"(?:\w{1,60}\.){0,5}"
_PERCENT = r"(?: +\[ *\d+%\])?$"
_PYRIGHT = rf" +{_PY_FILE}{AT_COL} - error: "
_DEEPER = r".*(?:\n[^\S\n]{4,}\S.*){0,20}\("  # pyright names the rule at the end of the last, deeper line

# A test that ran and failed is a regression, with any exception; an error while a module loads is not.
PYTEST: OutputParser = (
    OutputRule(rf"_{{3,}} ERROR collecting {FILE} _{{3,}}$", name="load"),
    OutputRule(r"ImportError while loading conftest '(?P<file>[^'\n]{1,300})'\.$", name="load"),
    OutputRule(rf"E {{3,}}{SYNTAX}: ", COMPILE, needs="load", telling=True),
    OutputRule(rf"E {{3,}}{_NO_IMPORT}: ", IMPORT, needs="load", telling=True),
    OutputRule(r"ImportError while importing test module ", IMPORT, name="load"),
    OutputRule(rf"ERROR {_PY_FILE} +- {_NO_IMPORT}: ", IMPORT),
    OutputRule(rf"(?:FAILED|ERROR) {_TEST}(?:$| - (?!Failed: Timeout)(?:(?P<code>[A-Z]\w{{1,60}}): )?)", REGRESSION),
    OutputRule(rf"(?:FAILED|ERROR) {_TEST} - Failed: Timeout", TIMEOUT),
    OutputRule(r"E {3,}Failed: Timeout [>(]", TIMEOUT, telling=True),
    OutputRule(r"(?:\S{1,300} )?\+{10,} Timeout \+{10,}$", TIMEOUT),
    OutputRule(rf"(?:\[gw\d+\] \[ *\d+%\] )(?:FAILED|ERROR) {_TEST} *$", REGRESSION),
    OutputRule(rf"{_TEST} (?:FAILED|ERROR){_PERCENT}", REGRESSION),
    OutputRule(rf"(?:FAILED|ERROR) {_PY_FILE}(?: +- (?:(?P<code>[A-Z]\w{{1,60}})(?:: |$))?.*)?$", REGRESSION),
    OutputRule(rf"{_TEST} RERUN{_PERCENT}"),
    OutputRule(r"(?:=+ )?(?!.{0,200}\b\d+ (?:failed|error))\d+ passed\b.{0,200}, \d+ rerun\b.{0,100} in \d", FLAKY),
    OutputRule(r"E {3,}File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7})$", telling=True),
    OutputRule(r"E {3,}(?:(?P<code>[A-Z][\w.]{1,80}(?:Error|Exception))\b|\S)", REGRESSION, telling=True),
    OutputRule(r"(?:=+ )?(?:\d+ [a-z]+, ){0,9}[1-9]\d* (?:failed|errors?)\b.{0,200} in \d", REGRESSION),
    OutputRule(rf"{_PY_FILE}{AT}: (?:in \S|[A-Z]\w*$|$)"),
)

UNITTEST: OutputParser = (
    OutputRule(r"ImportError: Failed to import test module", name="load"),
    OutputRule(rf"{SYNTAX}: ", COMPILE, needs="load"),
    OutputRule(rf"{_NO_IMPORT}: ", IMPORT, needs="load"),
    OutputRule(r"(?:FAIL|ERROR): \w+ \((?P<test>[\w.]{1,300})\)", REGRESSION),
)

# The taxonomy has no class for run-time errors; a type check before the retry finds the three under TYPE.
PYTHON: OutputParser = (
    OutputRule(r"Traceback \(most recent call last\):$", telling=True),
    OutputRule(r" +File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7})"),
    OutputRule(rf"(?:Sorry: )?{SYNTAX}: ", COMPILE),
    OutputRule(rf"{_NO_IMPORT}: ", IMPORT),
    OutputRule(r"\S{0,300}python[\d.]*(?:\.exe)?: No module named ", IMPORT),
    OutputRule(r"(?P<code>AssertionError)(?::| \[|$)", REGRESSION),
    OutputRule(rf"(?P<code>{_DOTTED}(?:TimeoutError|TimeoutExpired))(?:: |$)", TIMEOUT),
    OutputRule(r"(?P<code>TypeError|AttributeError|NameError): ", TYPE),
    OutputRule(rf"(?P<code>{_DOTTED}[A-Z]\w{{0,60}}(?:Error|Exception))(?:: |$)"),
)

MYPY: OutputParser = (
    OutputRule(rf"{_PY_FILE}{AT}(?::\d+)?: error: .*\[(?P<code>syntax)\]$", COMPILE),
    OutputRule(rf"{_PY_FILE}{AT}(?::\d+)?: error: (?!.*\[import[a-z-]*\]$)(?:.*\[(?P<code>[a-z-]+)\]$)?", TYPE),
    OutputRule(rf"{_PY_FILE}{AT}(?::\d+)?: error: .*\[(?P<code>import[a-z-]*)\]$", IMPORT),
)

PYRIGHT: OutputParser = (
    OutputRule(rf"{_PYRIGHT}(?!{_DEEPER}report)", COMPILE),  # every finding but a syntax error has a rule's name
    OutputRule(
        rf"{_PYRIGHT}(?!.*\(reportMissing(?:Imports|ModuleSource)\)$){_DEEPER}(?P<code>report\w{{2,60}})\)$", TYPE
    ),
    OutputRule(rf"{_PYRIGHT}.*\((?P<code>report\w{{2,60}})\)$", IMPORT),
)

RUFF: OutputParser = (
    OutputRule(rf"{_PY_FILE}{AT_COL}: (?:(?P<code>E999|E0001)\b|(?:invalid-syntax|SyntaxError): )", COMPILE),
    OutputRule(r"invalid-syntax: .{1,300}\n(?= *--> )", COMPILE),
    OutputRule(rf"{_PY_FILE}{AT_COL}: (?P<code>[A-Z]{{1,8}}\d{{2,5}}):? ", LINT),
    OutputRule(r"(?P<code>[A-Z]{1,8}\d{2,5})(?: \[\*\])? \S.{0,300}\n(?= *--> )", LINT),
    OutputRule(r"unformatted: File would be reformatted$", LINT),
    OutputRule(rf"would reformat {_PY_FILE}$", LINT),
    ARROW,
)

PIP: OutputParser = (
    OutputRule(r"ERROR: (?:No matching distribution found for|Cannot install|(?P<code>ResolutionImpossible):)", IMPORT),
    OutputRule(r"(?:error:| *\u00d7) No solution found when resolving dependencies", IMPORT),
)

RUN = UNITTEST + PIP + PYTHON
