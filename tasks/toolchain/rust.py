"""Rust: cargo test, clippy, build, check and fmt, and their output."""

from __future__ import annotations

from tasks.toolchain.contract import Contract, Part, ToolCategory
from tasks.toolchain.language import (
    ARROW,
    AT_COL,
    COMPILE,
    FILE,
    IMPORT,
    LINT,
    REGRESSION,
    TYPE,
    ConfiguredRunner,
    Language,
    LogSigns,
    OutputParser,
    OutputRule,
    QuickCheck,
    Rank,
    Toolchain,
)

_CARGO_OPTIONS = (
    "-q|--quiet|-v|--verbose|--all|--workspace|--lib|--bins|--tests|--all-targets|--all-features|--locked",
    "--no-default-features|--offline|--release|--no-fail-fast",
)
_CARGO_PACKAGE = (("-p", "name"), ("--package", "name"))

_NO_CARGO = (
    *("could not find `Cargo.toml`", "no test target named", "did not match any packages", "no such command"),
    "is not installed for the toolchain",
)

_TOOLS = (
    Contract(
        id="cargo-test",
        spellings=("cargo test",),
        example="cargo test",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="test_name",
        most=1,
        options=_CARGO_OPTIONS,
        valued=_CARGO_PACKAGE,
        tails=("--nocapture", "--test-threads=1", "--exact"),
        focus="cargo_test",
        focus_owner="-p",
        focus_tail=("--", "--exact"),
        reports=True,
        ran_codes=(0, 101),
        cannot_run=_NO_CARGO,
    ),
    Contract(
        id="cargo-nextest",
        spellings=("cargo nextest run",),
        example="cargo nextest run --no-fail-fast",
        category=ToolCategory.TEST,
        timeout_s=300,
        positional="test_name",
        most=1,
        options=_CARGO_OPTIONS,
        valued=(*_CARGO_PACKAGE, ("-E", "nextest")),
        focus="cargo_test",
        focus_option="-E",
        focus_form="test(={})",
        focus_owner="-p",
        ran_codes=(0, 100, 101),  # of tests that fail, and of a build
        cannot_run=("no such command: `nextest`", "no such subcommand: `nextest`"),
    ),
    Contract(
        id="cargo-clippy",
        spellings=("cargo clippy",),
        example="cargo clippy -- -D warnings",
        category=ToolCategory.LINT,
        timeout_s=120,
        options=_CARGO_OPTIONS,
        valued=_CARGO_PACKAGE,
        tails=("-D warnings",),
        ran_codes=(0, 101),
        cannot_run=_NO_CARGO,
    ),
    Contract(
        id="cargo-build",
        spellings=("cargo build",),
        example="cargo build",
        category=ToolCategory.BUILD,
        timeout_s=300,
        options=_CARGO_OPTIONS,
        valued=_CARGO_PACKAGE,
        ran_codes=(0, 101),
        cannot_run=_NO_CARGO,
    ),
    Contract(
        id="cargo-check",
        spellings=("cargo check",),
        example="cargo check",
        category=ToolCategory.BUILD,
        timeout_s=300,
        options=_CARGO_OPTIONS,
        valued=_CARGO_PACKAGE,
        ran_codes=(0, 101),
        cannot_run=_NO_CARGO,
    ),
    Contract(
        id="cargo-fmt",
        spellings=("cargo fmt",),
        example="cargo fmt --check",
        category=ToolCategory.LINT,
        timeout_s=30,
        options=("--all|-q|--quiet",),
        required=("--check",),
        cannot_run=_NO_CARGO,
    ),
)

_CHECK, _TESTS = Part("cargo check"), Part("cargo test")

_CLIPPY_CHECK = QuickCheck(
    "clippy",
    Part("cargo clippy", (".rs",), whole=True),  # at the levels that the project sets
    ("clippy.toml", ".clippy.toml"),
    ("Cargo.toml",),
    r"(?m)^\s*\[(?:workspace\.)?lints\.clippy\b",
)

_RECIPES = {
    "rust-full": (Part("cargo clippy -- -D warnings"), _TESTS),
}

_CHECKS = {
    "rust-check": (_CHECK,),
    "rust-test-only": (_TESTS,),
}

_LANGUAGE = Language(
    name="rust",
    aliases=("rs",),
    suffixes=(".rs",),
    manifests=("Cargo.toml", "Cargo.lock"),
    quick="rust-check",
    build="rust-check",
    test="rust-test-only",
    types=(_CHECK,),
    fix=(Part("cargo fmt --check"),),
    dependencies=(_CHECK,),
    quick_checks=((_CLIPPY_CHECK,),),
    projects=(("Cargo.toml", ""),),
    workspaces=(("Cargo.toml", r"(?m)^\s*\[workspace[\].]"),),
)

_MISTYPED = r"E0(?:061|107|277|282|283|308|369|412|425|560|599|600|604|605|606|609|614|618)"

RUST: OutputParser = (
    OutputRule(r"error\[(?P<code>E0432|E0433|E0463)\]: ", IMPORT, telling=True),
    OutputRule(r"error: (?:no matching package|failed to select a version|failed to get )", IMPORT),
    OutputRule(rf"error\[(?P<code>{_MISTYPED})\]: ", TYPE, telling=True),
    OutputRule(r"error\[(?P<code>E\d{4})\]: ", COMPILE, telling=True),
    OutputRule(r" +[=|] note: `-[DF] (?P<code>[\w:-]{2,80})` implied by ", LINT),
    OutputRule(r" +[=|] note: .{0,20}#\[deny\((?P<code>[\w:]{2,80})\)\]", LINT),
    OutputRule(rf"Diff in {FILE}(?: at line |:)(?P<line>\d{{1,7}}):$", LINT),
    OutputRule(r"error: .{1,500}\n(?= *--> )", COMPILE, telling=True),
    OutputRule(r"test (?P<test>\S.{0,300}) \.\.\. FAILED$", REGRESSION),
    OutputRule(r"---- (?P<test>\S{1,300}) stdout ----$", REGRESSION, telling=True),
    OutputRule(r"test result: FAILED\.", REGRESSION),
    OutputRule(rf"thread '.{{1,300}}' .{{0,30}}panicked at {FILE}{AT_COL}:$", telling=True),
    ARROW,
)

TOOLCHAIN = Toolchain(
    languages=(_LANGUAGE,),
    tools=_TOOLS,
    recipes=_RECIPES,
    checks=_CHECKS,
    runners=(ConfiguredRunner("cargo nextest run", files=(".config/nextest.toml",)),),
    configuration=(
        "build.rs",
        "Cargo.toml",
        "Cargo.lock",
        ".cargo/**",
        "rust-toolchain*",
        "clippy.toml",
        ".clippy.toml",
    ),
    output={"cargo": RUST},
    ranked={Rank.RUNNER: RUST},
    signs=LogSigns(
        dependency=r"failed to select a version for",
        build=r"error: linking with|\bcould not compile `|\berror\[E\d{4}\]",
        failing=r"\bpanicked at\b",
    ),
    foreign_files=r"(?:^|/)rustc/",
)
