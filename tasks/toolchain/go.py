"""Go: go test, vet and build, gofmt and golangci-lint, and their output."""

from __future__ import annotations

from tasks.toolchain.contract import Contract, Part, ToolCategory, path_tool
from tasks.toolchain.language import (
    AT,
    AT_COL,
    COMPILE,
    IMPORT,
    LINT,
    REGRESSION,
    TIMEOUT,
    TYPE,
    Language,
    LogSigns,
    OutputParser,
    OutputRule,
    Rank,
    Toolchain,
)

_GO_OPTIONS = (r"-v|-race|-short|-failfast|-count=\d{1,2}|-timeout=\d{1,4}[sm]|-mod=(?:readonly|vendor|mod)",)

_NO_MODULE = (
    *("does not contain main module", "cannot find main module", "go.mod file not found"),
    *("no test files", "no Go files in"),
)

_TOOLS = (
    Contract(
        id="go-test",
        spellings=("go test",),
        example="go test ./... -v",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="package",
        options=_GO_OPTIONS,
        valued=(("-run", "go_run"),),
        focus="go_test",
        focus_option="-run",
        focus_form="^{}$",
        focus_most=20,
        cannot_run=_NO_MODULE,
        reports=True,
    ),
    Contract(
        id="go-vet",
        spellings=("go vet",),
        example="go vet ./...",
        category=ToolCategory.LINT,
        timeout_s=60,
        positional="package",
        cannot_run=_NO_MODULE,
    ),
    Contract(
        id="go-build",
        spellings=("go build",),
        example="go build ./...",
        category=ToolCategory.BUILD,
        timeout_s=300,
        positional="package",
        options=("-v|-race|-mod=(?:readonly|vendor|mod)",),
        cannot_run=_NO_MODULE,
    ),
    path_tool(
        id="gofmt",
        spellings=("gofmt",),
        example="gofmt -l main.go",
        category=ToolCategory.VALIDATE,
        timeout_s=30,
        least=1,
        options=("-e|-s",),
        required=("-l",),
        ran_codes=(0, 2),
    ),
    Contract(
        id="golangci-lint",
        spellings=("golangci-lint run",),
        example="golangci-lint run ./...",
        category=ToolCategory.LINT,
        timeout_s=300,
        positional="package",
        options=("-v|--verbose",),
    ),
)

_VET_ALL, _BUILD_ALL, _TEST_ALL = Part("go vet ./..."), Part("go build ./..."), Part("go test ./...")
_FORMAT = Part("gofmt -l", (".go",))

_RECIPES = {
    "go-full": (_VET_ALL, _TEST_ALL),
}

_CHECKS = {
    "go-syntax": (_FORMAT,),
    "go-build": (_BUILD_ALL,),
    "go-test-only": (_TEST_ALL,),
}

_LANGUAGE = Language(
    name="go",
    aliases=("golang",),
    suffixes=(".go",),
    manifests=("go.mod", "go.sum"),
    quick="go-syntax",
    build="go-build",
    test="go-test-only",
    types=(_VET_ALL,),
    fix=(_FORMAT,),
    dependencies=(_BUILD_ALL,),
    projects=(("go.mod", ""),),
)

_GO_LINE = rf"(?:\./)?(?P<file>[^\s:]{{1,300}}\.go){AT_COL}: "
_VET = rf"(?:vet: )?{_GO_LINE}"
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

GO: OutputParser = (
    OutputRule(r"panic: test timed out after ", TIMEOUT, telling=True),
    OutputRule(r"\t(?P<test>(?:Test|Fuzz|Example)\S{0,300}) \(\d"),
    OutputRule(rf"{_VET}(?:{_NO_PACKAGE})", IMPORT),
    OutputRule(r"go: .{0,300}(?:no matching versions|unknown revision|missing go\.sum entry)", IMPORT),
    OutputRule(rf"{_VET}(?:syntax error: |expected |{_UNUSED})", COMPILE),
    OutputRule(rf"{_VET}(?:{_TYPES})", TYPE),
    OutputRule(rf"{_GO_LINE}(?:{_VETTED})", LINT),
    OutputRule(_VET, COMPILE),
    OutputRule(r" *--- FAIL: (?P<test>\S{1,300}) \(\d", REGRESSION, telling=True),
    OutputRule(r"FAIL(?:$|\t\S{1,300}\t\d)", REGRESSION),
    OutputRule(rf"\s{{1,40}}(?P<file>[^\s:]{{1,300}}\.go){AT}(?:: | \+0x)"),
)

# `go vet` may print any line in that form; it marks compile errors with "vet: ".
GO_VET: OutputParser = (OutputRule(rf"{_GO_LINE}(?!{_NO_PACKAGE}|{_TYPES}|{_UNUSED}|syntax error)", LINT),)
GOFMT: OutputParser = (OutputRule(r"(?P<file>\S{1,300}\.go)$", LINT),)

TOOLCHAIN = Toolchain(
    languages=(_LANGUAGE,),
    tools=_TOOLS,
    recipes=_RECIPES,
    checks=_CHECKS,
    configuration=(
        "go.mod",
        "go.sum",
        "go.work",
        "go.work.sum",
        ".golangci.*",
    ),
    output={"go": GO, "go-vet": GO_VET + GO, "gofmt": GO + GOFMT, "golangci": GO_VET + GO},
    ranked={Rank.TEST: GO},
    signs=LogSigns(
        dependency=r"missing go\.sum entry|no required module provides package|cannot find module providing package",
        build=r"\[build failed\]",
        failing=r"^[ \t]*--- FAIL:|^panic: |\bcontext deadline exceeded\b",
    ),
    foreign_files=r"^_testmain\.",
)
