"""What JavaScript's tools print: jest, vitest, mocha, node's runner (TAP), tsc, eslint, prettier, node, npm."""

from __future__ import annotations

from tasks.toolchain.pattern import (
    AT,
    AT_COL,
    COMPILE,
    FILE,
    FLAKY,
    IMPORT,
    LINT,
    REGRESSION,
    TIMEOUT,
    TYPE,
    Dialect,
    Rule,
)

_JS = r"(?P<file>[^\s:]{1,300}\.[cm]?[jt]sx?)"
_TSC = rf" *{FILE}[(:](?P<line>\d{{1,7}})[,:]\d{{1,7}}\)?(?:: | - )error "
_ESLINT = r" +(?P<line>\d{1,7}):\d{1,7} +error +"

JS_TESTS: Dialect = (
    Rule(r" +● Test suite failed to run$", name="load"),
    Rule(r" {4}(?:(?P<code>SyntaxError): |Jest encountered an unexpected token$)", COMPILE, needs="load", telling=True),
    Rule(r" {4}Cannot find module '[^'\n]{1,300}' from '(?P<file>[^'\n]{1,300})'$", IMPORT, needs="load", telling=True),
    Rule(r"⎯+ Failed Suites \d+ ⎯+$", name="suite"),
    Rule(r"Error: (?:Cannot find (?:package|module)|Failed to resolve import) ", IMPORT, needs="suite", telling=True),
    Rule(r" +thrown: \"Exceeded timeout of \d+ ", TIMEOUT, telling=True),
    Rule(r"Error: (?:Test|Hook) timed out in \d+ms\.$", TIMEOUT, telling=True),
    Rule(r" +Error: Timeout of \d+ms exceeded\.", TIMEOUT, telling=True),
    Rule(r" {2}● (?!Console$)(?P<test>\S.{0,300})$", REGRESSION, telling=True),
    Rule(r" FAIL {2}(?P<test>(?P<file>[^\s>]{1,300}) > .{1,300})$", REGRESSION, telling=True),
    Rule(r"not ok \d+ - (?P<test>(?!.{0,300} # (?:TODO|SKIP)).{1,300})$", REGRESSION, telling=True),
    Rule(r" {2}[1-9]\d* failing$", REGRESSION, telling=True),
    Rule(r" {4,40}\d{1,5}\) (?P<test>\S.{0,300})$"),
    Rule(r"Tests: +(?:\d+ [a-z]+, ){0,9}[1-9]\d* failed,", REGRESSION),
    Rule(rf" ?FAIL {{1,2}}{_JS}(?: |$)", REGRESSION),
    Rule(r" LOGGING RETRY ERRORS {2}(?P<test>.{1,300})$", FLAKY),
    Rule(rf" +(?:at (?:.{{1,200}} \()?|\u276f )(?:file://)?{FILE}{AT_COL}\)?$"),
)

TSC: Dialect = (
    Rule(rf"{_TSC}(?P<code>TS1\d{{3}}): ", COMPILE),
    Rule(rf"{_TSC}(?!TS1\d{{3}}:|TS2307:|TS2792:|TS7016:)(?P<code>TS\d{{4,5}}): ", TYPE),
    Rule(rf"{_TSC}(?P<code>TS\d{{4,5}}): ", IMPORT),
)

ESLINT: Dialect = (
    Rule(r"(?P<file>/[^\s:]{1,300})$"),
    Rule(rf"{_ESLINT}Parsing error: ", COMPILE),
    Rule(rf"{_ESLINT}.{{0,500}} {{2}}(?P<code>[@\w/-]{{2,80}})$", LINT),
    Rule(r"ESLint found too many warnings", LINT),
    Rule(r"\[warn\] Code style issues found", LINT),
    Rule(r"\[warn\] (?P<file>[^\s:]{1,300}\.\w{1,10})$"),
)

NODE: Dialect = (
    Rule(rf"(?:file://)?(?P<file>/[^\s:]{{1,300}}){AT}$", telling=True),
    Rule(r"Error: Cannot find module '", IMPORT),
    Rule(r"Error \[(?P<code>ERR_MODULE_NOT_FOUND)\]: .{1,300} imported from (?P<file>\S{1,300})$", IMPORT),
    Rule(r"(?P<code>SyntaxError): ", COMPILE),
    Rule(r"(?P<code>AssertionError)(?::| \[)", REGRESSION),
    Rule(r"(?P<code>TypeError|ReferenceError): ", TYPE),
)

NPM: Dialect = (Rule(r"npm (?:ERR!|error) code (?P<code>ERESOLVE|ETARGET|E404|EPEERINVALID)$", IMPORT),)
