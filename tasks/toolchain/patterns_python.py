"""What Python's tools print: pytest, unittest, tracebacks, mypy, pyright, ruff and its kin, pip and uv."""

from __future__ import annotations

from tasks.toolchain.pattern import (
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
    Dialect,
    Rule,
)

_PY = r"(?P<file>[^\s:'\"()]{1,300}\.pyi?)"
_TEST = r"(?P<test>[^\s:]{1,300}\.py::(?:(?! - )[^\n]){1,300}?)"
_NO_IMPORT = r"(?P<code>ModuleNotFoundError|ImportError)"
_DOTTED = r"(?:\w{1,60}\.){0,5}"
_PERCENT = r"(?: +\[ *\d+%\])?$"
_PYRIGHT = rf" +{_PY}{AT_COL} - error: "
_DEEPER = r".*(?:\n[^\S\n]{4,}\S.*){0,20}\("  # pyright names the rule at the end of the last, deeper line

# A test that ran and failed is a regression whatever it raised; what stops a module from loading is not.
PYTEST: Dialect = (
    Rule(rf"_{{3,}} ERROR collecting {FILE} _{{3,}}$", name="load"),
    Rule(r"ImportError while loading conftest '(?P<file>[^'\n]{1,300})'\.$", name="load"),
    Rule(rf"E {{3,}}{SYNTAX}: ", COMPILE, needs="load", telling=True),
    Rule(rf"E {{3,}}{_NO_IMPORT}: ", IMPORT, needs="load", telling=True),
    Rule(rf"(?:FAILED|ERROR) {_TEST}(?:$| - (?!Failed: Timeout)(?:(?P<code>[A-Z]\w{{1,60}}): )?)", REGRESSION),
    Rule(rf"(?:FAILED|ERROR) {_TEST} - Failed: Timeout", TIMEOUT),
    Rule(r"E {3,}Failed: Timeout [>(]", TIMEOUT, telling=True),
    Rule(r"(?:\S{1,300} )?\+{10,} Timeout \+{10,}$", TIMEOUT),
    Rule(rf"(?:\[gw\d+\] \[ *\d+%\] )(?:FAILED|ERROR) {_TEST} *$", REGRESSION),
    Rule(rf"{_TEST} (?:FAILED|ERROR){_PERCENT}", REGRESSION),
    Rule(rf"(?:FAILED|ERROR) {_PY}(?: +- (?:(?P<code>[A-Z]\w{{1,60}})(?:: |$))?.*)?$", REGRESSION),
    Rule(rf"{_TEST} RERUN{_PERCENT}"),
    Rule(r"(?:=+ )?(?!.{0,200}\b\d+ (?:failed|error))\d+ passed\b.{0,200}, \d+ rerun\b.{0,100} in \d", FLAKY),
    Rule(r"E {3,}File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7})$", telling=True),
    Rule(r"E {3,}(?:(?P<code>[A-Z][\w.]{1,80}(?:Error|Exception))\b|\S)", REGRESSION, telling=True),
    Rule(r"(?:=+ )?(?:\d+ [a-z]+, ){0,9}[1-9]\d* (?:failed|errors?)\b.{0,200} in \d", REGRESSION),
    Rule(rf"{_PY}{AT}: (?:in \S|[A-Z]\w*$|$)"),
)

UNITTEST: Dialect = (
    Rule(r"ImportError: Failed to import test module", name="load"),
    Rule(rf"{SYNTAX}: ", COMPILE, needs="load"),
    Rule(rf"{_NO_IMPORT}: ", IMPORT, needs="load"),
    Rule(r"(?:FAIL|ERROR): \w+ \((?P<test>[\w.]{1,300})\)", REGRESSION),
)

# The taxonomy has no class for run-time errors; the three under TYPE are what a type check before the retry finds.
PYTHON: Dialect = (
    Rule(r"Traceback \(most recent call last\):$", telling=True),
    Rule(r" +File \"(?P<file>[^\"\n]{1,300})\", line (?P<line>\d{1,7})"),
    Rule(rf"(?:Sorry: )?{SYNTAX}: ", COMPILE),
    Rule(rf"{_NO_IMPORT}: ", IMPORT),
    Rule(r"\S{0,300}python[\d.]*(?:\.exe)?: No module named ", IMPORT),
    Rule(r"(?P<code>AssertionError)(?::| \[|$)", REGRESSION),
    Rule(rf"(?P<code>{_DOTTED}(?:TimeoutError|TimeoutExpired))(?:: |$)", TIMEOUT),
    Rule(r"(?P<code>TypeError|AttributeError|NameError): ", TYPE),
    Rule(rf"(?P<code>{_DOTTED}[A-Z]\w{{0,60}}(?:Error|Exception))(?:: |$)"),
)

MYPY: Dialect = (
    Rule(rf"{_PY}{AT}(?::\d+)?: error: .*\[(?P<code>syntax)\]$", COMPILE),
    Rule(rf"{_PY}{AT}(?::\d+)?: error: (?!.*\[import[a-z-]*\]$)(?:.*\[(?P<code>[a-z-]+)\]$)?", TYPE),
    Rule(rf"{_PY}{AT}(?::\d+)?: error: .*\[(?P<code>import[a-z-]*)\]$", IMPORT),
)

PYRIGHT: Dialect = (
    Rule(rf"{_PYRIGHT}(?!{_DEEPER}report)", COMPILE),  # every finding but a syntax error has a rule's name
    Rule(rf"{_PYRIGHT}(?!.*\(reportMissing(?:Imports|ModuleSource)\)$){_DEEPER}(?P<code>report\w{{2,60}})\)$", TYPE),
    Rule(rf"{_PYRIGHT}.*\((?P<code>report\w{{2,60}})\)$", IMPORT),
)

RUFF: Dialect = (
    Rule(rf"{_PY}{AT_COL}: (?:(?P<code>E999|E0001)\b|(?:invalid-syntax|SyntaxError): )", COMPILE),
    Rule(r"invalid-syntax: .{1,300}\n(?= *--> )", COMPILE),
    Rule(rf"{_PY}{AT_COL}: (?P<code>[A-Z]{{1,8}}\d{{2,5}}):? ", LINT),
    Rule(r"(?P<code>[A-Z]{1,8}\d{2,5})(?: \[\*\])? \S.{0,300}\n(?= *--> )", LINT),
    Rule(r"unformatted: File would be reformatted$", LINT),
    Rule(rf"would reformat {_PY}$", LINT),
    ARROW,
)

PIP: Dialect = (
    Rule(r"ERROR: (?:No matching distribution found for|Cannot install|(?P<code>ResolutionImpossible):)", IMPORT),
    Rule(r"(?:error:| *\u00d7) No solution found when resolving dependencies", IMPORT),
)
