"""What the tools of Go, Rust, C and C++ print: go, cargo, rustc, clippy, gcc, clang, ld, cmake, ctest, googletest."""

from __future__ import annotations

from tasks.toolchain.pattern import (
    ARROW,
    AT,
    AT_COL,
    COMPILE,
    FILE,
    IMPORT,
    LINT,
    REGRESSION,
    TIMEOUT,
    TYPE,
    Dialect,
    Rule,
)

_GO = rf"(?:\./)?(?P<file>[^\s:]{{1,300}}\.go){AT_COL}: "
_VET = rf"(?:vet: )?{_GO}"
_UNUSED = r"imported and not used|\"[^\"\n]{1,200}\" imported and not used|(?:\w+ )?declared (?:and|but) not used"
_TYPES = (
    r"cannot (?:use|convert|assign|infer|call)\b|undefined: |invalid operation: |invalid argument: "
    r"|not enough arguments|too many arguments|assignment mismatch: |impossible type |missing return"
    r"|\S{1,200} undefined \("
)
_VETTED = (
    r"(?:\w+\.)?\w+ (?:format|call|arg list)\b|unreachable code|self-assignment of|struct field|result of|possible \w"
    r"|the cancel function|loop variable|.{0,100}\bpasses? lock by value|assignment copies lock"
)
_NO_PACKAGE = r"no required module provides package|cannot find (?:module|package)|package \S{1,200} is not in "

GO: Dialect = (
    Rule(r"panic: test timed out after ", TIMEOUT, telling=True),
    Rule(r"\t(?P<test>(?:Test|Fuzz|Example)\S{0,300}) \(\d"),
    Rule(rf"{_VET}(?:{_NO_PACKAGE})", IMPORT),
    Rule(r"go: .{0,300}(?:no matching versions|unknown revision|missing go\.sum entry)", IMPORT),
    Rule(rf"{_VET}(?:syntax error: |expected |{_UNUSED})", COMPILE),
    Rule(rf"{_VET}(?:{_TYPES})", TYPE),
    Rule(rf"{_GO}(?:{_VETTED})", LINT),
    Rule(_VET, COMPILE),
    Rule(r" *--- FAIL: (?P<test>\S{1,300}) \(\d", REGRESSION, telling=True),
    Rule(r"FAIL(?:$|\t\S{1,300}\t\d)", REGRESSION),
    Rule(rf"\s{{1,40}}(?P<file>[^\s:]{{1,300}}\.go){AT}(?:: | \+0x)"),
)

# `go vet` itself may say anything in that shape; what it could not compile it marks with "vet: ".
GO_VET: Dialect = (Rule(rf"{_GO}(?!{_NO_PACKAGE}|{_TYPES}|{_UNUSED}|syntax error)", LINT),)
GOFMT: Dialect = (Rule(r"(?P<file>\S{1,300}\.go)$", LINT),)

_MISTYPED = r"E0(?:061|107|277|282|283|308|369|412|425|560|599|600|604|605|606|609|614|618)"

RUST: Dialect = (
    Rule(r"error\[(?P<code>E0432|E0433|E0463)\]: ", IMPORT, telling=True),
    Rule(r"error: (?:no matching package|failed to select a version|failed to get )", IMPORT),
    Rule(rf"error\[(?P<code>{_MISTYPED})\]: ", TYPE, telling=True),
    Rule(r"error\[(?P<code>E\d{4})\]: ", COMPILE, telling=True),
    Rule(r" +[=|] note: `-[DF] (?P<code>[\w:-]{2,80})` implied by ", LINT),
    Rule(r" +[=|] note: .{0,20}#\[deny\((?P<code>[\w:]{2,80})\)\]", LINT),
    Rule(rf"Diff in {FILE}(?: at line |:)(?P<line>\d{{1,7}}):$", LINT),
    Rule(r"error: .{1,500}\n(?= *--> )", COMPILE, telling=True),
    Rule(r"test (?P<test>\S.{0,300}) \.\.\. FAILED$", REGRESSION),
    Rule(r"---- (?P<test>\S{1,300}) stdout ----$", REGRESSION, telling=True),
    Rule(r"test result: FAILED\.", REGRESSION),
    Rule(rf"thread '.{{1,300}}' .{{0,30}}panicked at {FILE}{AT_COL}:$", telling=True),
    ARROW,
)

_LD = r"(?:\S{0,200}\bld(?:\.\w+)?: )"

CC: Dialect = (
    Rule(rf"{FILE}{AT}(?::\d+)?: fatal error: .{{1,300}}(?:: No such file or directory| file not found)$", IMPORT),
    Rule(rf"{_LD}(?:cannot find -l|library not found for -l)", IMPORT),
    Rule(rf"{FILE}{AT}(?::\d+)?: (?:fatal )?error: (?!.*\[-Werror)", COMPILE),
    Rule(rf"{FILE}{AT}(?::\d+)?: (?:fatal )?error: .*\[-Werror[=,](?P<code>[\w=-]{{1,80}})\]$", LINT),
    Rule(r"(?:cc1(?:plus)?|gcc|g\+\+|clang(?:\+\+)?|cc|c\+\+): (?:fatal )?error: (?!linker command)", COMPILE),
    Rule(rf"{_LD}?[^\s:]{{1,300}}:(?:\(\.[^)\n]{{1,100}}\)|\d+): undefined reference to ", COMPILE, telling=True),
    Rule(r"(?:collect2: error: ld returned|clang(?:\+\+)?: error: linker command failed)", COMPILE),
)

CMAKE: Dialect = (
    Rule(rf"CMake Error at {FILE}{AT} \((?:find_\w+|pkg_\w+)\):", IMPORT, telling=True),
    Rule(rf"CMake Error at [^\s:]{{0,300}}FindPackageHandleStandardArgs\.cmake{AT} ", IMPORT, telling=True),
    Rule(rf"CMake Error at {FILE}{AT} ", COMPILE, telling=True),
)

CTEST: Dialect = (
    Rule(r" *\d+/\d+ Test +#\d+: (?P<test>\S.{0,200}?) \.*\*\*\*(?!Timeout)\w", REGRESSION, telling=True),
    Rule(r"\t *\d+ - (?P<test>\S.{0,200}?) \((?!Timeout|Disabled|Skipped)[^)\n]{1,60}\)", REGRESSION),
    Rule(r" *\d+/\d+ Test +#\d+: (?P<test>\S.{0,200}?) \.*\*\*\*Timeout", TIMEOUT, telling=True),
    Rule(r"\t *\d+ - (?P<test>\S.{0,200}?) \(Timeout\)", TIMEOUT),
    Rule(r"\[  FAILED  \] (?P<test>[\w/]{1,200}\.[\w/]{1,200})(?:,| \(|$)", REGRESSION),
    Rule(rf"{FILE}{AT}: Failure$", telling=True),
)
