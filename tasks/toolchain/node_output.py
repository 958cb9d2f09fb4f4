"""Output of the tools of JavaScript and TypeScript: test runners, tsc, eslint, prettier, Node itself and npm."""

from __future__ import annotations

from tasks.toolchain.language import (
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
    OutputParser,
    OutputRule,
)

_JS_FILE = r"(?P<file>[^\s:]{1,300}\.[cm]?[jt]sx?)"
_TSC_LINE = rf" *{FILE}[(:](?P<line>\d{{1,7}})[,:]\d{{1,7}}\)?(?:: | - )error "
_ESLINT_LINE = r" +(?P<line>\d{1,7}):\d{1,7} +error +"

JS_TESTS: OutputParser = (
    OutputRule(r" +● Test suite failed to run$", name="load"),
    OutputRule(
        r" {4}(?:(?P<code>SyntaxError): |Jest encountered an unexpected token$)", COMPILE, needs="load", telling=True
    ),
    OutputRule(
        r" {4}Cannot find module '[^'\n]{1,300}' from '(?P<file>[^'\n]{1,300})'$", IMPORT, needs="load", telling=True
    ),
    OutputRule(r"⎯+ Failed Suites \d+ ⎯+$", name="suite"),
    OutputRule(
        r"Error: (?:Cannot find (?:package|module)|Failed to resolve import) ", IMPORT, needs="suite", telling=True
    ),
    OutputRule(r" +thrown: \"Exceeded timeout of \d+ ", TIMEOUT, telling=True),
    OutputRule(r"Error: (?:Test|Hook) timed out in \d+ms\.$", TIMEOUT, telling=True),
    OutputRule(r" +Error: Timeout of \d+ms exceeded\.", TIMEOUT, telling=True),
    OutputRule(r" {2}● (?!Console$)(?P<test>\S.{0,300})$", REGRESSION, telling=True),
    OutputRule(r" FAIL {2}(?P<test>(?P<file>[^\s>]{1,300}) > .{1,300})$", REGRESSION, telling=True),
    OutputRule(r"not ok \d+ - (?P<test>(?!.{0,300} # (?:TODO|SKIP)).{1,300})$", REGRESSION, telling=True),
    OutputRule(r" {2}[1-9]\d* failing$", REGRESSION, telling=True),
    OutputRule(r"\(fail\) (?P<test>.{1,300}?)(?: \[[\d.]+m?s\])?$", REGRESSION, telling=True),
    OutputRule(
        r"(?P<test>\S.{0,300}) => (?:\./)?(?P<file>[^\s:]{1,300}):(?P<line>\d{1,7}):\d{1,7}$", REGRESSION, telling=True
    ),
    OutputRule(
        r" {2}\d{1,5}\) (?:\[[^]\n]{1,100}\] \u203a )?(?P<file>[^\s:]{1,300}):(?P<line>\d{1,7}):\d{1,7}"
        r" \u203a (?P<test>[^\n\u2500]{1,300}[^\s\u2500]) \u2500+$",
        REGRESSION,
        telling=True,
    ),
    OutputRule(r"(?P<code>TS2307) \[ERROR\]: ", IMPORT, telling=True),
    OutputRule(r"(?P<code>TS\d{4,5}) \[ERROR\]: ", TYPE, telling=True),
    OutputRule(r" {4,40}\d{1,5}\) (?P<test>\S.{0,300})$"),
    OutputRule(r"Tests: +(?:\d+ [a-z]+, ){0,9}[1-9]\d* failed,", REGRESSION),
    OutputRule(rf" ?FAIL {{1,2}}{_JS_FILE}(?: |$)", REGRESSION),
    OutputRule(r" LOGGING RETRY ERRORS {2}(?P<test>.{1,300})$", FLAKY),
    OutputRule(rf" +(?:at (?:.{{1,200}} \()?|\u276f )(?:file://)?{FILE}{AT_COL}\)?$"),
)

TSC: OutputParser = (
    OutputRule(rf"{_TSC_LINE}(?P<code>TS1\d{{3}}): ", COMPILE),
    OutputRule(rf"{_TSC_LINE}(?!TS1\d{{3}}:|TS2307:|TS2792:|TS7016:)(?P<code>TS\d{{4,5}}): ", TYPE),
    OutputRule(rf"{_TSC_LINE}(?P<code>TS\d{{4,5}}): ", IMPORT),
)

ESLINT: OutputParser = (
    OutputRule(r"(?P<file>/[^\s:]{1,300})$"),
    OutputRule(rf"{_ESLINT_LINE}Parsing error: ", COMPILE),
    OutputRule(rf"{_ESLINT_LINE}.{{0,500}} {{2}}(?P<code>[@\w/-]{{2,80}})$", LINT),
    OutputRule(r"ESLint found too many warnings", LINT),
    OutputRule(r"\[warn\] Code style issues found", LINT),
    OutputRule(r"\[warn\] (?P<file>[^\s:]{1,300}\.\w{1,10})$"),
)

NODE: OutputParser = (
    OutputRule(rf"(?:file://)?(?P<file>/[^\s:]{{1,300}}){AT}$", telling=True),
    OutputRule(r"Error: Cannot find module '", IMPORT),
    OutputRule(r"Error \[(?P<code>ERR_MODULE_NOT_FOUND)\]: .{1,300} imported from (?P<file>\S{1,300})$", IMPORT),
    OutputRule(r"(?P<code>SyntaxError): ", COMPILE),
    OutputRule(r"(?P<code>AssertionError)(?::| \[)", REGRESSION),
    OutputRule(r"(?P<code>TypeError|ReferenceError): ", TYPE),
)

NPM: OutputParser = (OutputRule(r"npm (?:ERR!|error) code (?P<code>ERESOLVE|ETARGET|E404|EPEERINVALID)$", IMPORT),)

RUN = TSC + ESLINT + NPM + NODE
